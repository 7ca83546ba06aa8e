package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/authority/access"
)

// Issuer makes node certificates.
type Issuer interface {
	// Check fails when the request could not be issued for this node.
	Check(csrDER []byte, node string) error
	// Issue returns the node's certificate chain.
	Issue(csrDER []byte, node string, tenants []string, now time.Time) ([][]byte, error)
	// Roots are the certificates that nodes must trust; none: those that they
	// were configured with.
	Roots() [][]byte
	// KeyID names the key that issues.
	KeyID() string
}

// ErrNoIssuer says that this authority has no key to issue certificates with.
var ErrNoIssuer = errors.New("this authority does not enrol nodes: no node CA key is configured")

// CertificateExpired is why a node is not served any more on the connection
// that it opened with a certificate whose time is over.
const CertificateExpired = "certificate-expired"

// ErrCertificateExpired says the same of a request.
var ErrCertificateExpired = errors.New(CertificateExpired)

// Certificate is what a connected node proved itself with.
type Certificate struct {
	Issuer    string // key that signed it
	IssuedAt  time.Time
	ExpiresAt time.Time
}

// Expired reports whether the node's certificate has run out since it
// connected: a connection is worth no longer than what opened it.
func (c *Coordinator) Expired(caller Caller) error {
	end := caller.Certificate.ExpiresAt
	if end.IsZero() || c.cfg.Clock.Now().Before(end) {
		return nil
	}
	return fmt.Errorf("%w: the certificate of node %s ended on %s: it must be enrolled again", ErrCertificateExpired, caller.Node, end.UTC().Format(time.RFC3339))
}

// Outdated reports whether the node's certificate was signed by another key
// than the one that issues: it should renew soon.
func (c *Coordinator) Outdated(caller Caller) bool {
	return c.cfg.Issuer != nil && caller.Certificate.Issuer != "" && caller.Certificate.Issuer != c.cfg.Issuer.KeyID()
}

// Enrolment is what a node gets for a join token, and for its former
// certificate.
type Enrolment struct {
	Chain [][]byte
	Roots [][]byte
}

// Enroll issues a node certificate for the tenants of a join token. The
// request is checked before the token is spent.
func (c *Coordinator) Enroll(ctx context.Context, token, node string, csrDER []byte) (Enrolment, error) {
	if c.cfg.Issuer == nil {
		return Enrolment{}, ErrNoIssuer
	}
	if err := c.cfg.Issuer.Check(csrDER, node); err != nil {
		return Enrolment{}, &InputError{Field: "csr_der", Value: clip(node), Problem: err.Error()}
	}
	spent, err := c.cfg.Store.SpendJoinToken(ctx, access.Hash(token))
	if err != nil {
		c.metrics.enrolRefused.Inc()
		return Enrolment{}, err
	}
	chain, err := c.cfg.Issuer.Issue(csrDER, node, spent.Tenants, c.cfg.Clock.Now())
	if err != nil {
		return Enrolment{}, fmt.Errorf("issue certificate: %w", err)
	}
	c.cfg.Log.Info("node enrolled", zap.String("node", node), zap.Strings("tenants", spent.Tenants))
	return Enrolment{Chain: chain, Roots: c.cfg.Issuer.Roots()}, nil
}

// RenewCertificate issues a certificate for exactly the identity that the node
// has proved on its connection.
func (c *Coordinator) RenewCertificate(ctx context.Context, caller Caller, csrDER []byte) (Enrolment, error) {
	if c.cfg.Issuer == nil {
		return Enrolment{}, ErrNoIssuer
	}
	if err := c.Expired(caller); err != nil {
		return Enrolment{}, err
	}
	if err := c.cfg.Issuer.Check(csrDER, caller.Node); err != nil {
		return Enrolment{}, &InputError{Field: "csr_der", Value: clip(caller.Node), Problem: err.Error()}
	}
	chain, err := c.cfg.Issuer.Issue(csrDER, caller.Node, caller.Tenants, c.cfg.Clock.Now())
	if err != nil {
		return Enrolment{}, fmt.Errorf("issue certificate: %w", err)
	}
	c.metrics.renewals.Inc()
	c.cfg.Log.Info("node certificate renewed", zap.String("node", caller.Node), zap.Strings("tenants", caller.Tenants))
	return Enrolment{Chain: chain, Roots: c.cfg.Issuer.Roots()}, nil
}
