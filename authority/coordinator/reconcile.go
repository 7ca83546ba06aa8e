package coordinator

import (
	"context"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/authority/access"
	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// EvidenceFor is what a person needs to reconcile a scope.
func (c *Coordinator) EvidenceFor(ctx context.Context, p access.Person, text string) (Left, error) {
	if err := mayRead(p); err != nil {
		return Left{}, err
	}
	view, err := c.visible(ctx, p, text)
	if err != nil {
		return Left{}, err
	}
	return c.left(ctx, view)
}

// Blocked lists the scopes that are not open, of the person's tenants.
func (c *Coordinator) Blocked(ctx context.Context, p access.Person) ([]lease.Record, error) {
	if err := mayRead(p); err != nil {
		return nil, err
	}
	closed, err := c.cfg.Store.Closed(ctx, maxLeases)
	if err != nil {
		return nil, err
	}
	var out []lease.Record
	for _, r := range closed {
		if p.Sees(r.Scope.Tenant()) {
			out = append(out, r)
		}
	}
	return out, nil
}

// PersonClaim is a person's wish to reconcile a scope that is not open.
type PersonClaim struct {
	CommandID string
	Scope     string
	Reason    string
	For       time.Duration // 0: lease.DefaultReconcileFor
}

// Reconcile gives the person the lease to reconcile. A quarantined scope needs
// the right to administer.
func (c *Coordinator) Reconcile(ctx context.Context, p access.Person, r PersonClaim) (lease.Answer, bool, error) {
	if err := p.May(access.ForceRelease); err != nil {
		return lease.Answer{}, false, err
	}
	r.Reason = strings.TrimSpace(r.Reason)
	if err := checkText("reason", r.Reason, MaxReason); err != nil {
		return lease.Answer{}, false, err
	}
	if r.For == 0 {
		r.For = lease.DefaultReconcileFor
	}
	sum := digest("reconcile", []any{r.Scope, r.Reason, r.For})
	return c.byPerson(ctx, p, r.CommandID, r.Scope, sum, "claimed for reconciliation", r.Reason, func(s scope.Scope, policy lease.Policy) fold.Action {
		return fold.Reconcile(s, policy, lease.ReconcileRequest{
			Actor: p.Principal(), LeaseID: ulid.Make().String(), Reason: r.Reason, For: r.For, Quarantined: p.May(access.Admin) == nil,
		})
	})
}

// ResolveFor records what a person found, and reopens the scope.
func (c *Coordinator) ResolveFor(ctx context.Context, p access.Person, commandID, text string, found Finding) (lease.Answer, bool, error) {
	if err := p.May(access.ForceRelease); err != nil {
		return lease.Answer{}, false, err
	}
	if err := checkFinding(found); err != nil {
		return lease.Answer{}, false, err
	}
	sum := digest("resolve", []any{text, found})
	return c.byPerson(ctx, p, commandID, text, sum, "resolved", found.Seen, func(s scope.Scope, policy lease.Policy) fold.Action {
		return fold.Resolve(s, policy, lease.ResolveRequest{
			Actor: p.Principal(), Resolutions: found.Resolutions, Reopen: found.Reopen, Seen: found.Seen,
		})
	})
}

// byPerson runs a person's decision on a scope that he sees.
func (c *Coordinator) byPerson(ctx context.Context, p access.Person, commandID, text string, sum [32]byte, what, why string,
	action func(scope.Scope, lease.Policy) fold.Action,
) (lease.Answer, bool, error) {
	view, err := c.visible(ctx, p, text)
	if err != nil {
		return lease.Answer{}, false, err
	}
	s := view.Record.Scope
	id, err := c.identify(p.Principal(), commandID, sum)
	if err != nil {
		return refuseCommand(err)
	}
	policy, _ := c.cfg.Policies.For(s)
	a, replayed, err := c.do(ctx, fold.Command{Command: id, Action: action(s, policy)})
	if err == nil && !replayed {
		c.cfg.Log.Warn("scope "+what, zap.Stringer("scope", s), zap.Stringer("epoch", a.Epoch),
			zap.String("actor", p.Principal()), zap.String("reason", why), zap.String("state", string(a.Code)), zap.String("detail", a.Detail))
	}
	return a, replayed, err
}
