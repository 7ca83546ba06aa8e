package feed

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics of the hints, for operators.
type metrics struct {
	sent      *prometheus.CounterVec
	heard     *prometheus.CounterVec
	dropped   prometheus.Counter
	lost      prometheus.Counter
	listening prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	return &metrics{
		sent: f.NewCounterVec(prometheus.CounterOpts{
			Name: "forgeyard_feed_sent_total", Help: "Sessions that other replicas were told of, by result.",
		}, []string{"result"}),
		heard: f.NewCounterVec(prometheus.CounterOpts{
			Name: "forgeyard_feed_heard_total", Help: "Sessions that other replicas told of, by where their node is connected.",
		}, []string{"node"}),
		dropped: f.NewCounter(prometheus.CounterOpts{
			Name: "forgeyard_feed_dropped_total", Help: "Sessions not told of because too many were waiting.",
		}),
		lost: f.NewCounter(prometheus.CounterOpts{
			Name: "forgeyard_feed_connections_lost_total", Help: "Times that the listening connection was lost or refused.",
		}),
		listening: f.NewGauge(prometheus.GaugeOpts{
			Name: "forgeyard_feed_listening", Help: "1 while this replica hears others.",
		}),
	}
}
