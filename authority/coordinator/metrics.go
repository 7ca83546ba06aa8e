package coordinator

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/shared/lease"
)

// metrics of ownership (DESIGN 8). Labels come from closed sets only.
type metrics struct {
	acquire    *prometheus.CounterVec
	contention *prometheus.CounterVec
	expired    *prometheus.CounterVec
	stale      *prometheus.CounterVec
	force      *prometheus.CounterVec
	reconcile  *prometheus.CounterVec

	blocked     prometheus.Gauge
	quarantined prometheus.Gauge

	defects         prometheus.Counter
	nodeConflicts   prometheus.Counter
	invalidReceipts prometheus.Counter
	ahead           prometheus.Counter
	enrolRefused    prometheus.Counter
	refusedNodes    prometheus.Counter
	renewals        prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	one := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	return &metrics{
		acquire:    vec("concurrency_lease_acquire_total", "Requests for a scope, by outcome.", "scope_kind", "result", "holder_kind"),
		contention: vec("concurrency_lease_contention_total", "Requests that found the scope held.", "scope_kind", "holder_kind"),
		expired:    vec("concurrency_lease_expired_total", "Leases ended because their session went silent.", "scope_kind", "holder_kind"),
		stale:      vec("concurrency_stale_fence_rejected_total", "Requests refused because they named a lease or epoch of the past.", "scope_kind", "result"),
		reconcile:  vec("concurrency_reconciliation_total", "What nodes and people said of unclean ends: account, reconcile or resolve, with the outcome.", "scope_kind", "result"),
		force:      vec("concurrency_force_release_total", "Force releases, by outcome.", "scope_kind", "result"),

		blocked:         gauge("concurrency_scopes_blocked", "Scopes that wait for reconciliation."),
		quarantined:     gauge("concurrency_scopes_quarantined", "Scopes whose records contradict each other. Above 0 somebody must look."),
		defects:         one("concurrency_rule_defects_total", "Changes refused by the authority's own check. Above 0 is a defect."),
		nodeConflicts:   one("concurrency_node_conflicts_total", "Registrations that met a session of another process of the node."),
		invalidReceipts: one("concurrency_invalid_receipts_total", "Registrations refused for a receipt that is not ours."),
		enrolRefused:    one("forgeyard_enrolments_refused_total", "Join tokens that were unknown, spent or expired."),
		refusedNodes:    one("forgeyard_nodes_refused_total", "Registrations of nodes that were revoked or removed."),
		renewals:        one("forgeyard_node_certificates_renewed_total", "Certificates issued to nodes over their connections."),
		ahead:           one("concurrency_node_ahead_total", "Heartbeats that reported a set ahead of the store."),
	}
}

func (m *metrics) count(commands []fold.Command, out fold.Outcome) {
	for i, r := range out.Results {
		if r.Defect != nil {
			m.defects.Inc()
		}
		if !r.Replayed {
			m.command(commands[i].Action, r.Answer)
		}
	}
	for _, l := range out.Ended {
		if l.EndReason == lease.Expired {
			m.expired.WithLabelValues(string(l.Scope.Kind()), string(l.Holder.Kind)).Inc()
		}
	}
}

func (m *metrics) command(a fold.Action, answer lease.Answer) {
	kind, result := string(a.Scope.Kind()), string(answer.Code)
	if answer.Reason != lease.NoReason {
		result += ":" + string(answer.Reason)
	}
	switch a.Verb {
	case fold.VerbAcquire:
		m.acquire.WithLabelValues(kind, result, string(a.Holder)).Inc()
		if answer.Code == lease.Busy {
			m.contention.WithLabelValues(kind, string(a.Holder)).Inc()
		}
	case fold.VerbClaim, fold.VerbRenew, fold.VerbRelease:
		if answer.Code == lease.Lost || answer.Code == lease.AlreadyEnded {
			m.stale.WithLabelValues(kind, result).Inc()
		}
	case fold.VerbForceRelease:
		m.force.WithLabelValues(kind, result).Inc()
		if answer.Reason == lease.WrongEpoch {
			m.stale.WithLabelValues(kind, result).Inc()
		}
	case fold.VerbAccount, fold.VerbReconcile, fold.VerbResolve:
		m.reconcile.WithLabelValues(kind, string(a.Verb)+":"+result).Inc()
	case fold.VerbRegister, fold.VerbRevoke, fold.VerbClose, fold.VerbSettle:
	}
}
