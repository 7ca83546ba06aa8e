package authority

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/identity"
)

// One CA follows another in three steps: rotate, so that a new one issues and
// both are trusted; nodes renew by themselves and learn of both; retire, so
// that the former one is trusted no more.

// ErrRotating says that the former CA must be retired first.
var ErrRotating = errors.New("a rotation is under way: retire the former CA first")

// nodeCA loads the CA that issues to nodes.
func nodeCA(t TLSConfig) (*identity.CA, error) {
	if t.NodeCAKey == "" {
		return nil, errors.New("tls.node_ca_key: no CA of nodes is configured")
	}
	return identity.LoadCAFiles(t.CA, t.NodeCAKey, t.TrustDomain)
}

// CAStatus says who issues and who is trusted beside.
type CAStatus struct {
	Issuing  *x509.Certificate
	Retiring []*x509.Certificate
}

// ShowCA reads the files of the configuration.
func ShowCA(t TLSConfig) (CAStatus, error) {
	ca, err := nodeCA(t)
	if err != nil {
		return CAStatus{}, err
	}
	return CAStatus{Issuing: ca.Certificate(), Retiring: ca.Predecessors()}, nil
}

// RotateCA makes the next CA in place of the configured one, which stays
// trusted. An authority takes it over at its next start.
func RotateCA(t TLSConfig, now time.Time) (CAStatus, error) {
	ca, err := nodeCA(t)
	if err != nil {
		return CAStatus{}, err
	}
	if len(ca.Predecessors()) > 0 {
		return CAStatus{}, ErrRotating
	}
	next, err := ca.Follow(now)
	if err != nil {
		return CAStatus{}, err
	}
	if err := next.SaveFiles(t.CA, t.NodeCAKey); err != nil {
		return CAStatus{}, fmt.Errorf("rotate CA: %w", err)
	}
	return CAStatus{Issuing: next.Certificate(), Retiring: next.Predecessors()}, nil
}

// StillNeededError says who depends on a CA that is to be retired.
type StillNeededError struct {
	Nodes  []string // with a certificate of it that is valid, or of which nothing is known
	Server bool     // the authority's own certificate is of it
}

// Error implements error.
func (e *StillNeededError) Error() string {
	var why []string
	if len(e.Nodes) > 0 {
		why = append(why, "nodes with a certificate of it (they renew when they are connected; remove those that are gone): "+strings.Join(e.Nodes, ", "))
	}
	if e.Server {
		why = append(why, "tls.certificate is of it: replace it first")
	}
	return "the former CA is still needed: " + strings.Join(why, "; ")
}

// RetireCA drops the predecessors of the CA that issues. Unless force is set it
// fails with *StillNeededError while somebody depends on them.
func RetireCA(ctx context.Context, cfg Config, now time.Time, force bool) (CAStatus, error) {
	ca, err := nodeCA(cfg.TLS)
	if err != nil {
		return CAStatus{}, err
	}
	if len(ca.Predecessors()) == 0 {
		return CAStatus{}, errors.New("there is no former CA to retire: rotate first")
	}
	if !force {
		if err := stillNeeded(ctx, cfg, ca, now); err != nil {
			return CAStatus{}, err
		}
	}
	retired := ca.Retire()
	if err := identity.WriteRoots(cfg.TLS.CA, retired.Roots()); err != nil {
		return CAStatus{}, fmt.Errorf("retire CA: %w", err)
	}
	return CAStatus{Issuing: retired.Certificate()}, nil
}

func stillNeeded(ctx context.Context, cfg Config, ca *identity.CA, now time.Time) error {
	needed := &StillNeededError{}
	if cfg.TLS.Certificate != "" {
		server, err := identity.LoadPair(cfg.TLS.Certificate, cfg.TLS.Key)
		if err != nil {
			return err
		}
		needed.Server = serverOf(server, ca.Pool()) && !serverOf(server, ca.Retire().Pool())
	}
	var err error
	if needed.Nodes, err = nodesOf(ctx, cfg, ca, now); err != nil {
		return err
	}
	if len(needed.Nodes) > 0 || needed.Server {
		return needed
	}
	return nil
}

// nodesOf lists the nodes that depend on a predecessor of ca.
func nodesOf(ctx context.Context, cfg Config, ca *identity.CA, now time.Time) ([]string, error) {
	s, err := openStore(ctx, cfg, clock.System())
	if errors.Is(err, store.ErrLocked) {
		return nil, fmt.Errorf("read nodes: the embedded store is in use: stop the authority first: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("read nodes: %w", err)
	}
	defer s.Close()
	nodes, err := s.Nodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("read nodes: %w", err)
	}
	sessions, err := s.Sessions(ctx)
	if err != nil {
		return nil, fmt.Errorf("read nodes: %w", err)
	}
	var out []string
	known := map[string]bool{}
	for _, n := range nodes {
		known[n.Name] = true
		valid := n.State == store.NodeAdmitted && n.Certificate.ExpiresAt.After(now)
		if valid && slices.ContainsFunc(ca.Predecessors(), func(c *x509.Certificate) bool { return identity.KeyIDOf(c) == n.Certificate.Issuer }) {
			out = append(out, n.Name)
		}
	}
	for _, session := range sessions { // of a version that kept no account of certificates
		if !known[session.Node] {
			out = append(out, session.Node)
		}
	}
	slices.Sort(out)
	return out, nil
}
