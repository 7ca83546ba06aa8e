package engine

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics of the two lanes, for operators.
type metrics struct {
	batch       prometheus.Histogram
	transaction prometheus.Histogram
	heartbeat   prometheus.Histogram
	retries     *prometheus.CounterVec
	overloaded  prometheus.Counter
	skipped     prometheus.Counter
	pauses      *prometheus.CounterVec
	pause       prometheus.Gauge
	parting     prometheus.Gauge
	generation  prometheus.Gauge
	cuts        prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	seconds := prometheus.ExponentialBuckets(0.0005, 2, 14)
	return &metrics{
		batch: f.NewHistogram(prometheus.HistogramOpts{
			Name: "forgeyard_engine_batch_commands", Help: "Commands of one transaction.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 10),
		}),
		transaction: f.NewHistogram(prometheus.HistogramOpts{
			Name: "forgeyard_engine_transaction_seconds", Help: "Duration of one transaction, failed ones too.", Buckets: seconds,
		}),
		heartbeat: f.NewHistogram(prometheus.HistogramOpts{
			Name: "forgeyard_engine_heartbeat_seconds", Help: "Duration of one statement of heartbeats.", Buckets: seconds,
		}),
		retries: f.NewCounterVec(prometheus.CounterOpts{
			Name: "forgeyard_engine_failed_transactions_total", Help: "Transactions that failed, by class of the error.",
		}, []string{"class"}),
		overloaded: f.NewCounter(prometheus.CounterOpts{
			Name: "forgeyard_engine_overloaded_total", Help: "Commands and heartbeats refused because a queue was full.",
		}),
		skipped: f.NewCounter(prometheus.CounterOpts{
			Name: "forgeyard_engine_heartbeats_skipped_total", Help: "Heartbeats that found their row locked.",
		}),
		pauses: f.NewCounterVec(prometheus.CounterOpts{
			Name: "forgeyard_time_pauses_total", Help: "Time pauses begun, by cause.",
		}, []string{"cause"}),
		pause: f.NewGauge(prometheus.GaugeOpts{
			Name: "forgeyard_time_pause_seconds", Help: "What is left of the time pause for the longest session, at the last look.",
		}),
		parting: f.NewGauge(prometheus.GaugeOpts{
			Name: "forgeyard_store_clock_uncertainty_seconds", Help: "Width of what is not known about store clock against boottime.",
		}),
		generation: f.NewGauge(prometheus.GaugeOpts{
			Name: "forgeyard_generation", Help: "Generation of epochs in force.",
		}),
		cuts: f.NewCounter(prometheus.CounterOpts{
			Name: "forgeyard_history_cuts_total", Help: "Times that the store's history may have been cut.",
		}),
	}
}
