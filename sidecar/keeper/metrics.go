package keeper

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	beats       *prometheus.CounterVec
	transitions *prometheus.CounterVec
	lost        *prometheus.CounterVec
	holds       prometheus.Gauge
	unknown     prometheus.Counter
	diskErrors  prometheus.Counter
	conflicts   prometheus.Counter
	accounts    *prometheus.CounterVec
	owed        *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{
		beats: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "forgeyard_sidecar_heartbeats_total", Help: "Heartbeats by result: renewed, refused or failed.",
		}, []string{"result"}),
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "forgeyard_sidecar_hold_transitions_total", Help: "Changes of state of holds.",
		}, []string{"from", "to"}),
		lost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "forgeyard_sidecar_holds_lost_total", Help: "Holds lost, by reason.",
		}, []string{"reason"}),
		holds: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "forgeyard_sidecar_holds", Help: "Holds that this sidecar knows, lost ones that are still remembered included.",
		}),
		unknown: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "forgeyard_sidecar_unknown_effects_total", Help: "Effects whose outcome was unknown when their lease ended.",
		}),
		diskErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "forgeyard_sidecar_cache_write_errors_total", Help: "Durable writes of the cache that went wrong.",
		}),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "forgeyard_sidecar_registration_waits_total", Help: "Registrations that had to wait: another process has the node's session.",
		}),
	}
	m.accounts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "forgeyard_sidecar_accounts_total", Help: "Accounts of leases that ended without their receipt: settled, unknown (effects are left) or refused.",
	}, []string{"result"})
	m.owed = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "forgeyard_sidecar_owed_leases", Help: "Ended leases of this node that keep their scopes blocked, by whether its journal can account for them.",
	}, []string{"journal"})
	reg.MustRegister(m.beats, m.transitions, m.lost, m.holds, m.unknown, m.diskErrors, m.conflicts, m.accounts, m.owed)
	return m
}

// registerAge shows the time since the last confirmation, by the clock of the
// scrape: it grows when the loop is dead, too.
func (k *Keeper) registerAge() {
	k.cfg.Registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "forgeyard_sidecar_confirmed_seconds_ago", Help: "Seconds since the request was sent that last confirmed the session; -1: never.",
	}, func() float64 {
		if ago := k.Status().ConfirmedAgo; ago >= 0 {
			return ago.Seconds()
		}
		return -1
	}))
}
