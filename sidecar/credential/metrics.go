package credential

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	renewals *prometheus.CounterVec
}

// newMetrics shows how long the certificate lasts by the clock of the scrape.
func newMetrics(reg prometheus.Registerer, left func() time.Duration) metrics {
	m := metrics{renewals: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "forgeyard_sidecar_certificate_renewals_total", Help: "Renewals of the node's certificate by result: renewed or failed.",
	}, []string{"result"})}
	reg.MustRegister(m.renewals, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "forgeyard_sidecar_certificate_expires_seconds", Help: "Seconds until the node's certificate expires; below 0: it has.",
	}, func() float64 { return left().Seconds() }))
	return m
}
