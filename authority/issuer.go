package authority

import (
	"time"

	"github.com/forgeyard/concurrency/authority/coordinator"
	"github.com/forgeyard/concurrency/shared/identity"
)

// issuer makes node certificates with the node CA's key.
type issuer struct {
	ca   *identity.CA
	life time.Duration
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
	return &issuer{ca: ca, life: t.NodeLife}, nil
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
func (i *issuer) Roots() [][]byte { return [][]byte{i.ca.DER()} }
