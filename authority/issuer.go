package authority

import (
	"crypto/tls"
	"crypto/x509"
	"time"

	"github.com/forgeyard/concurrency/authority/coordinator"
	"github.com/forgeyard/concurrency/shared/identity"
)

// issuer makes node certificates with the node CA's key.
type issuer struct {
	ca    *identity.CA
	life  time.Duration
	roots [][]byte
}

var _ coordinator.Issuer = (*issuer)(nil)

// newIssuer returns nil when no key is configured: nodes cannot enrol here.
func newIssuer(t TLSConfig) (coordinator.Issuer, error) {
	if t.NodeCAKey == "" {
		return nil, nil
	}
	ca, err := identity.LoadCAFiles(t.CA, t.NodeCAKey, t.TrustDomain)
	if err != nil {
		return nil, err
	}
	server, err := identity.LoadPair(t.Certificate, t.Key)
	if err != nil {
		return nil, err
	}
	i := &issuer{ca: ca, life: t.NodeLife}
	if serverOf(server, ca.Pool()) {
		i.roots = ca.Roots()
	}
	return i, nil
}

// serverOf reports whether a server with this certificate is trusted by nodes
// that trust the pool. One of another PKI is not: its nodes go by their own
// ca_file, and must not be told otherwise.
func serverOf(server tls.Certificate, pool *x509.CertPool) bool {
	between := x509.NewCertPool()
	for _, der := range server.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	_, err := server.Leaf.Verify(x509.VerifyOptions{Roots: pool, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return err == nil
}

// Check implements coordinator.Issuer by a trial that nobody gets to see.
func (i *issuer) Check(csrDER []byte, node string) error {
	_, err := i.ca.IssueNode(csrDER, identity.Node{Name: node, Tenants: []string{"trial"}}, time.Unix(0, 0), time.Second)
	return err
}

// Issue implements coordinator.Issuer.
func (i *issuer) Issue(csrDER []byte, node string, tenants []string, now time.Time) ([][]byte, error) {
	return i.ca.IssueNode(csrDER, identity.Node{Name: node, Tenants: tenants}, now, i.life)
}

// Roots implements coordinator.Issuer.
func (i *issuer) Roots() [][]byte { return i.roots }

// KeyID implements coordinator.Issuer.
func (i *issuer) KeyID() string { return i.ca.KeyID() }
