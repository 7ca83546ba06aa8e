package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/authority/access"
	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/identity"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// Limits of the audit list.
const (
	defaultAudit = 100
	maxAudit     = 10000
)

// ErrNodeRevoked says that a person has decided that the node may not act.
var ErrNodeRevoked = errors.New(string(lease.NodeRevoked))

// Parting is what the end of a node's session leaves to wait for.
type Parting struct {
	Leases   int           // of the node, which drain
	SilentIn time.Duration // when the last of them can be granted to others
}

// RevokeNode refuses a node from now on. Its session is ended, so that no
// replica renews it; its leases drain until the time that its process trusts
// has passed. It is told at once, so that it stops by itself; each replica
// closes its connections with its next sweep, whether or not it has heard.
func (c *Coordinator) RevokeNode(ctx context.Context, p access.Person, name, reason string) (Parting, error) {
	n, err := c.decidable(ctx, p, name, &reason)
	if err != nil {
		return Parting{}, err
	}
	if err := c.decide(ctx, p, name, n.State, store.NodeRevoked, reason); err != nil {
		return Parting{}, err
	}
	return c.part(ctx, lease.RevokeRequest{Node: name, Actor: p.Principal(), Reason: reason})
}

// RestoreNode lets a revoked node come again with the certificate that it has,
// and a removed one with a certificate that is made from now on.
func (c *Coordinator) RestoreNode(ctx context.Context, p access.Person, name, reason string) error {
	n, err := c.decidable(ctx, p, name, &reason)
	if err != nil || n.State == store.NodeAdmitted || n.State == "" {
		return err
	}
	return c.decide(ctx, p, name, n.State, store.NodeAdmitted, reason)
}

// RemoveNode refuses the certificates that a node has. Its name is free for a
// new enrolment. A node that is alive must be revoked, or stopped, first.
func (c *Coordinator) RemoveNode(ctx context.Context, p access.Person, name, reason string) (Parting, error) {
	n, err := c.decidable(ctx, p, name, &reason)
	if err != nil {
		return Parting{}, err
	}
	if n.State == store.NodeAdmitted || n.State == "" {
		alive, err := c.alive(ctx, name)
		if err != nil {
			return Parting{}, err
		}
		if alive {
			return Parting{}, &InputError{Field: "node", Value: name, Problem: "is alive: stop its sidecar, or revoke it first"}
		}
	}
	if err := c.decide(ctx, p, name, n.State, store.NodeRemoved, reason); err != nil {
		return Parting{}, err
	}
	return c.part(ctx, lease.RevokeRequest{Node: name, Actor: p.Principal(), Reason: reason})
}

// decidable checks rights and words, and reads the node. One with a tenant that
// is not the person's, and one that nobody knows, are alike to a person who
// does not see every tenant.
func (c *Coordinator) decidable(ctx context.Context, p access.Person, name string, reason *string) (store.Node, error) {
	if err := p.May(access.Admin); err != nil {
		return store.Node{}, err
	}
	if err := (identity.Node{Name: name, Tenants: []string{"any"}}).Validate(); err != nil {
		return store.Node{}, &InputError{Field: "node", Value: clip(name), Problem: err.Error()}
	}
	*reason = strings.TrimSpace(*reason)
	if err := checkText("reason", *reason, MaxReason); err != nil {
		return store.Node{}, err
	}
	n, err := c.cfg.Store.Node(ctx, name)
	if err != nil {
		return store.Node{}, err
	}
	own := len(n.Tenants) > 0 && !slices.ContainsFunc(n.Tenants, func(t string) bool { return !p.Sees(t) })
	if !own && !p.Sees(access.AllTenants) {
		return store.Node{}, fmt.Errorf("node %s: %w: it never came, or has a tenant that is not one of yours", name, ErrNotFound)
	}
	return n, nil
}

// decide writes a decision that was made upon a state. When that has changed,
// as it does when the node comes for the first time, the decision stands: it is
// the last one.
func (c *Coordinator) decide(ctx context.Context, p access.Person, name string, from, to store.NodeState, reason string) error {
	const attempts = 3
	for n := 1; from != to; n++ {
		change := store.NodeChange{Name: name, From: from, To: to, By: p.Principal(), Reason: reason}
		err := c.cfg.Store.ChangeNode(ctx, change)
		if err == nil {
			c.cfg.Log.Warn("node "+string(to), zap.String("node", name), zap.String("actor", change.By), zap.String("reason", reason))
			return nil
		}
		if !errors.Is(err, store.ErrConflict) || n == attempts {
			return fmt.Errorf("change node: %w", err)
		}
		now, err := c.cfg.Store.Node(ctx, name)
		if err != nil {
			return fmt.Errorf("change node: %w", err)
		}
		from = now.State
	}
	return nil
}

// part ends the node's session, if it has one, and lets its leases drain. The
// sweeper does what is left when this replica dies on the way.
func (c *Coordinator) part(ctx context.Context, r lease.RevokeRequest) (Parting, error) {
	a, _, err := c.do(ctx, fold.Command{Action: fold.Revoke(r)})
	if err != nil {
		return Parting{}, fmt.Errorf("end session: %w", err)
	}
	if s := a.Session; s != nil { // it looks, is refused, and stops, on whichever replica it is
		c.cfg.Moved([]fold.Moved{{Session: s.ID, Node: s.Node, Version: s.Version(c.cfg.Engine.History().Generation)}})
	}
	held, err := c.cfg.Store.Leases(ctx, store.LeaseFilter{Node: r.Node, Limit: maxLeases})
	if err != nil {
		return Parting{}, err
	}
	scopes := make([]scope.Scope, 0, len(held))
	for _, l := range held {
		scopes = append(scopes, l.Scope)
	}
	c.settleAll(context.WithoutCancel(ctx), scopes)
	return Parting{Leases: len(held), SilentIn: a.RetryAfter}, nil
}

func (c *Coordinator) alive(ctx context.Context, node string) (bool, error) {
	sessions, err := c.cfg.Store.Sessions(ctx)
	if err != nil {
		return false, err
	}
	f := c.facts(c.cfg.Engine.StoreNow())
	return slices.ContainsFunc(sessions, func(s lease.Session) bool { return s.Node == node && f.Alive(s) }), nil
}

// admit records with what a node came and says why it may not.
func (c *Coordinator) admit(ctx context.Context, caller Caller) (refusal string, err error) {
	n, err := c.cfg.Store.SeeNode(ctx, store.Visit{
		Node: caller.Node, Tenants: caller.Tenants, Certificate: caller.Certificate, Via: c.cfg.Replica,
	})
	if err != nil {
		return "", fmt.Errorf("admit node: %w", err)
	}
	return n.Refuses(caller.Certificate), nil
}

// admitted looks once more after the node got its session: a decision of
// between is either seen here, or it sees the session and ends it.
func (c *Coordinator) admitted(ctx context.Context, caller Caller) (refusal string, err error) {
	n, err := c.cfg.Store.Node(ctx, caller.Node)
	if err != nil {
		return "", fmt.Errorf("admit node: %w", err)
	}
	refusal = n.Refuses(caller.Certificate)
	if refusal == "" {
		return "", nil
	}
	_, err = c.part(ctx, lease.RevokeRequest{Node: caller.Node, Actor: lease.Authority, Reason: refusal})
	return refusal, err
}

// whyRevoked says who revoked the node, and why; as far as that can be read.
func (c *Coordinator) whyRevoked(ctx context.Context, caller Caller) string {
	n, err := c.cfg.Store.Node(ctx, caller.Node)
	if err != nil {
		return err.Error()
	}
	return n.Refuses(caller.Certificate)
}

// dropRefused closes the connections of nodes that were refused, by a decision
// on whichever replica.
func (c *Coordinator) dropRefused(ctx context.Context) error {
	refused, err := c.cfg.Store.Refused(ctx)
	if err != nil {
		return fmt.Errorf("list refused nodes: %w", err)
	}
	for _, n := range refused {
		if c.cfg.Roster.Connected(n) {
			c.cfg.Roster.Drop(n)
		}
	}
	return nil
}

// Fleet lists the nodes: those with a session, and those that came before or
// that were decided about.
func (c *Coordinator) Fleet(ctx context.Context, p access.Person) ([]NodeRow, error) {
	rows, err := c.Nodes(ctx, p)
	if err != nil {
		return nil, err
	}
	known, err := c.cfg.Store.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	listed := make(map[string]bool, len(rows))
	for _, r := range rows {
		listed[r.Name] = true
	}
	for _, n := range known {
		if listed[n.Name] {
			continue
		}
		tenants := slices.DeleteFunc(slices.Clone(n.Tenants), func(t string) bool { return !p.Sees(t) })
		if len(tenants) > 0 || p.Sees(access.AllTenants) {
			rows = append(rows, NodeRow{Name: n.Name, Standing: n, Tenants: tenants})
		}
	}
	slices.SortFunc(rows, func(a, b NodeRow) int { return strings.Compare(a.Name, b.Name) })
	return rows, nil
}

// Audit lists who did what to one scope, or, without a scope, to nodes and join
// tokens, which is for administrators of every tenant.
func (c *Coordinator) Audit(ctx context.Context, p access.Person, of string, limit int) ([]lease.Audit, error) {
	if limit <= 0 {
		limit = defaultAudit
	}
	limit = min(limit, maxAudit)
	if of != "" {
		if err := mayRead(p); err != nil {
			return nil, err
		}
		view, err := c.visible(ctx, p, of)
		if err != nil {
			return nil, err
		}
		return c.cfg.Store.Audit(ctx, view.Record.Scope, limit)
	}
	if err := p.May(access.Admin); err != nil {
		return nil, err
	}
	if !p.Sees(access.AllTenants) {
		return nil, fmt.Errorf("%w: nodes and join tokens of every tenant are in that list", access.ErrDenied)
	}
	return c.cfg.Store.Audit(ctx, scope.Scope{}, limit)
}
