package coordinator

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/authority/access"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/identity"
	"github.com/forgeyard/concurrency/shared/lease"
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
	before, err := c.cfg.Store.Node(ctx, node)
	if err != nil {
		return Enrolment{}, err
	}
	if before.State == store.NodeRevoked {
		return Enrolment{}, fmt.Errorf("%w: %s", ErrNodeRevoked, before.Refuses(store.Certificate{}))
	}
	spent, err := c.cfg.Store.SpendJoinToken(ctx, access.Hash(token))
	if err != nil {
		c.metrics.enrolRefused.Inc()
		return Enrolment{}, err
	}
	got, issued, err := c.issue(csrDER, node, spent.Tenants)
	if err != nil {
		return Enrolment{}, err
	}
	n, err := c.cfg.Store.SeeNode(ctx, store.Visit{Node: node, Tenants: spent.Tenants, Certificate: issued, Enrolled: true})
	if err != nil {
		return Enrolment{}, fmt.Errorf("record enrolment: %w", err)
	}
	if refusal := n.Refuses(issued); refusal != "" { // decided meanwhile
		return Enrolment{}, fmt.Errorf("%w: %s", ErrNodeRevoked, refusal)
	}
	return got, c.recordEnrolment(ctx, spent, before, node)
}

func (c *Coordinator) recordEnrolment(ctx context.Context, spent store.JoinToken, before store.Node, node string) error {
	detail := "for " + strings.Join(spent.Tenants, ", ")
	if end := before.Certificate.ExpiresAt; end.After(c.cfg.Clock.Now()) {
		detail += "; it has a certificate until " + end.Format(time.RFC3339)
	}
	err := c.cfg.Store.Record(ctx, lease.Audit{Actor: "token:" + spent.Fingerprint(), Action: "node-enrolled", Node: node, Reason: detail})
	if err != nil {
		return fmt.Errorf("record enrolment: %w", err)
	}
	c.cfg.Log.Info("node enrolled", zap.String("node", node), zap.Strings("tenants", spent.Tenants), zap.String("token", spent.Fingerprint()))
	return nil
}

func (c *Coordinator) issue(csrDER []byte, node string, tenants []string) (Enrolment, store.Certificate, error) {
	now := c.cfg.Clock.Now()
	chain, err := c.cfg.Issuer.Issue(csrDER, node, tenants, now)
	if err != nil {
		return Enrolment{}, store.Certificate{}, fmt.Errorf("issue certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(chain[0])
	if err != nil {
		return Enrolment{}, store.Certificate{}, fmt.Errorf("issue certificate: %w", err)
	}
	return Enrolment{Chain: chain, Roots: c.cfg.Issuer.Roots()}, CertificateOf(leaf), nil
}

// CertificateOf is what is remembered of a node's certificate.
func CertificateOf(leaf *x509.Certificate) store.Certificate {
	return store.Certificate{Issuer: identity.IssuerOf(leaf), IssuedAt: identity.IssuedAt(leaf), ExpiresAt: leaf.NotAfter}
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
	n, err := c.cfg.Store.Node(ctx, caller.Node)
	if err != nil {
		return Enrolment{}, err
	}
	if refusal := n.Refuses(caller.Certificate); refusal != "" {
		return Enrolment{}, fmt.Errorf("%w: %s", ErrNodeRevoked, refusal)
	}
	got, issued, err := c.issue(csrDER, caller.Node, caller.Tenants)
	if err != nil {
		return Enrolment{}, err
	}
	c.metrics.renewals.Inc()
	c.cfg.Log.Info("node certificate renewed", zap.String("node", caller.Node), zap.Strings("tenants", caller.Tenants),
		zap.Time("expires_at", issued.ExpiresAt))
	return got, nil
}
