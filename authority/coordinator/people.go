package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/authority/access"
	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// ForceRelease is a person's decision to end a lease: exact scope, the epoch
// that the person saw, and a reason (FC-84).
type ForceRelease struct {
	CommandID          string
	Scope              string
	Epoch              epoch.Epoch
	Reason             string
	AcceptUnreconciled bool
}

// ForceRelease ends the lease that p names. A live holder drains first; the
// answer says so and how long it can take (FC-90).
func (c *Coordinator) ForceRelease(ctx context.Context, p access.Person, r ForceRelease) (lease.Answer, bool, error) {
	if err := p.May(access.ForceRelease); err != nil {
		return lease.Answer{}, false, err
	}
	r.Reason = strings.TrimSpace(r.Reason)
	if err := checkText("reason", r.Reason, MaxReason); err != nil {
		return lease.Answer{}, false, err
	}
	if r.Epoch == 0 {
		return lease.Answer{}, false, &InputError{Field: "epoch", Value: "0", Problem: "must be the epoch of the holder that you saw"}
	}
	view, err := c.visible(ctx, p, r.Scope)
	if err != nil {
		return lease.Answer{}, false, err
	}
	s := view.Record.Scope
	id, err := c.identify(p.Principal(), r.CommandID, digest("force-release", []any{s.String(), r.Epoch, r.Reason, r.AcceptUnreconciled}))
	if err != nil {
		return refuseCommand(err)
	}
	policy, _ := c.cfg.Policies.For(s)
	a, replayed, err := c.do(ctx, fold.Command{Command: id, Action: fold.ForceRelease(s, policy, lease.ForceReleaseRequest{
		Epoch: r.Epoch, Actor: p.Principal(), Reason: r.Reason, AcceptUnreconciled: r.AcceptUnreconciled,
	})})
	if err == nil && !replayed {
		c.cfg.Log.Warn("force release", zap.Stringer("scope", s), zap.Stringer("epoch", r.Epoch),
			zap.String("actor", p.Principal()), zap.String("reason", r.Reason), zap.String("state", string(a.Code)))
	}
	return a, replayed, err
}

// visible reads a scope for a person. One that was never used, and one of a
// tenant that is not the person's, are both ErrNotFound with the same words.
func (c *Coordinator) visible(ctx context.Context, p access.Person, text string) (store.ScopeView, error) {
	s, err := parseScope("scope", text)
	if err != nil {
		return store.ScopeView{}, err
	}
	notFound := fmt.Errorf("scope %s: %w: it was never used, or its tenant is not one of yours", s, ErrNotFound)
	if !p.Sees(s.Tenant()) {
		return store.ScopeView{}, notFound
	}
	view, err := c.cfg.Store.Scope(ctx, s)
	if err != nil {
		return store.ScopeView{}, err
	}
	if view.Record.Epoch == 0 && len(view.Leases) == 0 {
		return store.ScopeView{}, notFound
	}
	view.Record.Scope = s
	return view, nil
}

// mayRead is the check of every read for people.
func mayRead(p access.Person) error { return p.May(access.Read) }

// tenantsOf lists the tenants to ask a store for: one empty text for all.
func tenantsOf(p access.Person, s scope.Scope) []string {
	switch {
	case !s.IsZero() && p.Sees(s.Tenant()):
		return []string{s.Tenant()}
	case !s.IsZero():
		return nil
	case p.Sees(access.AllTenants):
		return []string{""}
	}
	return p.Tenants
}

// IsInput reports whether err is the caller's fault: malformed.
func IsInput(err error) bool {
	var input *InputError
	return errors.As(err, &input)
}
