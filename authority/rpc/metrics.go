package rpc

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

func newShed(r prometheus.Registerer) prometheus.Counter {
	return promauto.With(r).NewCounter(prometheus.CounterOpts{
		Name: "forgeyard_node_connections_shed_total", Help: "Connections of nodes closed at once because too many handshakes were under way.",
	})
}
