package proxy

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	refused *prometheus.CounterVec
	effects *prometheus.CounterVec
	reads   prometheus.Counter
	running prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "forgeyard_sidecar_refused_calls_total", Help: "Calls that did not leave, by refusal code.",
		}, []string{"code"}),
		effects: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "forgeyard_sidecar_effects_total", Help: "Mutations that were started, by outcome.",
		}, []string{"outcome"}),
		reads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "forgeyard_sidecar_reads_total", Help: "Reads that were passed on.",
		}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "forgeyard_sidecar_running_effects", Help: "Mutations between their intent and their outcome.",
		}),
	}
	reg.MustRegister(m.refused, m.effects, m.reads, m.running)
	return m
}
