package authority

import (
	"crypto/x509"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/identity"
)

// showExpiry shows how long the certificates last that nobody renews but an
// operator: the server's, and those that are trusted for nodes, as one figure.
func showExpiry(t TLSConfig, clk clock.Clock, reg prometheus.Registerer) error {
	server, err := identity.LoadPair(t.Certificate, t.Key)
	if err != nil {
		return err
	}
	trusted, err := identity.LoadCertificates(t.CA)
	if err != nil {
		return err
	}
	last := trusted[0]
	for _, c := range trusted {
		if c.NotAfter.After(last.NotAfter) {
			last = c
		}
	}
	for name, cert := range map[string]*x509.Certificate{"server": server.Leaf, "ca": last} {
		gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "forgeyard_certificate_expires_seconds", Help: "Seconds until a certificate of the authority expires; below 0: it has.",
			ConstLabels: prometheus.Labels{"certificate": name},
		}, func() float64 { return cert.NotAfter.Sub(clk.Now()).Seconds() })
		if err := reg.Register(gauge); err != nil {
			return err
		}
	}
	return nil
}
