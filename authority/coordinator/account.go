package coordinator

import (
	"context"
	"fmt"
	"slices"

	"github.com/forgeyard/concurrency/authority/access"
	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// MaxEffects bounds the effects of one message.
const MaxEffects = 1000

// Report stores what a node says of effects that are or were open. What names
// no lease of that node is left out, and what is under a scope whose policy asks
// nobody what an unclean end left.
func (c *Coordinator) Report(ctx context.Context, caller Caller, effects []effect.Effect) error {
	if err := checkEffects(effects); err != nil {
		return err
	}
	asked := slices.DeleteFunc(slices.Clone(effects), func(e effect.Effect) bool {
		p, _ := c.cfg.Policies.For(e.Scope)
		return p.OnUncleanEnd == lease.FreeAfter
	})
	return c.cfg.Store.Report(ctx, caller.Node, asked)
}

// Confirm records an effect that is about to be sent; without Claimed as the
// answer's code it must not be sent (policy confirm: per-effect).
func (c *Coordinator) Confirm(ctx context.Context, caller Caller, r Ref, e effect.Effect) (lease.Answer, error) {
	if err := checkEffects([]effect.Effect{e}); err != nil {
		return lease.Answer{}, err
	}
	ok, err := c.cfg.Store.Confirm(ctx, store.Confirmation{Ref: r.lease(), Node: caller.Node, Effect: e})
	if err != nil {
		return lease.Answer{}, fmt.Errorf("confirm effect: %w", err)
	}
	if !ok {
		return lease.Answer{Code: lease.Lost, Reason: lease.NoLease, Detail: fmt.Sprintf("lease %s with epoch %d is not live in this session", r.Lease, r.Epoch)}, nil
	}
	return lease.Answer{Code: lease.Claimed, Epoch: r.Epoch}, nil
}

// Account is the word of a node on a lease of its own that ended without a
// receipt; it may reopen the scope.
func (c *Coordinator) Account(ctx context.Context, caller Caller, r Ref, q lease.Quiescence) (lease.Answer, bool, error) {
	if err := checkQuiescence(q); err != nil {
		return lease.Answer{}, false, err
	}
	ids := make([]string, len(q.Left))
	for i, e := range q.Left {
		ids[i] = e.ID
	}
	return c.onScope(ctx, caller, r.Request, r.Scope, digest("account", []any{r.Session, r.Scope, r.Lease, r.Epoch, q.Unknown, ids}),
		func(s scope.Scope, p lease.Policy) fold.Action {
			return fold.Account(s, p, lease.AccountRequest{
				Session: r.Session, Nonce: r.Nonce, Lease: r.Lease, Epoch: r.Epoch, Quiescence: q,
			})
		})
}

// Finding is what a reconciler saw.
type Finding struct {
	Resolutions []lease.Resolution
	Reopen      bool
	Seen        string // of the whole, with Reopen
}

// Resolve records what a controller found under its lease to reconcile.
func (c *Coordinator) Resolve(ctx context.Context, caller Caller, r Ref, found Finding) (lease.Answer, bool, error) {
	if err := checkFinding(found); err != nil {
		return lease.Answer{}, false, err
	}
	return c.onScope(ctx, caller, r.Request, r.Scope, digest("resolve", []any{r.Session, r.Scope, r.Lease, r.Epoch, found}),
		func(s scope.Scope, p lease.Policy) fold.Action {
			return fold.Resolve(s, p, lease.ResolveRequest{
				Ref: r.lease(), Resolutions: found.Resolutions, Reopen: found.Reopen, Seen: found.Seen,
			})
		})
}

// Left is what a scope's former holders left behind.
type Left struct {
	Record    lease.Record
	Holder    *lease.Lease // who has it now, the reconciler for example
	Unsettled []lease.Lease
	Effects   []lease.Evidence // open and unknown ones of Unsettled first
}

// Complete reports whether every node has told all that it left.
func (l Left) Complete() bool {
	return !l.Record.Forgotten && !slices.ContainsFunc(l.Unsettled, func(u lease.Lease) bool { return !u.Accounted && !u.Confirm })
}

// Evidence is what a node's controller needs to reconcile a scope.
func (c *Coordinator) Evidence(ctx context.Context, caller Caller, text string) (Left, error) {
	s, err := parseScope("scope", text)
	if err != nil {
		return Left{}, err
	}
	if err := access.NodeMay(caller.Node, caller.Tenants, s); err != nil {
		return Left{}, fmt.Errorf("scope %s: %w", s, ErrNotFound)
	}
	view, err := c.cfg.Store.Scope(ctx, s)
	if err != nil {
		return Left{}, err
	}
	view.Record.Scope = s
	return c.left(ctx, view)
}

func (c *Coordinator) left(ctx context.Context, view store.ScopeView) (Left, error) {
	l := Left{Record: view.Record}
	if len(view.Leases) > 0 {
		l.Holder = &view.Leases[0]
	}
	var err error
	if l.Unsettled, err = c.cfg.Store.Unsettled(ctx, view.Record.Scope, maxLeases); err != nil {
		return Left{}, fmt.Errorf("read unsettled leases: %w", err)
	}
	if l.Effects, err = c.cfg.Store.Effects(ctx, view.Record.Scope, MaxEffects); err != nil {
		return Left{}, fmt.Errorf("read effects: %w", err)
	}
	return l, nil
}

// BlockedFor lists the blocked scopes of the caller's tenants that are of one
// of the kinds: work for its reconcilers.
func (c *Coordinator) BlockedFor(ctx context.Context, caller Caller, kinds []string) ([]lease.Record, error) {
	c.interested(caller, kinds)
	closed, err := c.cfg.Store.Closed(ctx, maxLeases)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(closed, func(r lease.Record) bool {
		return r.State != lease.Blocked || !slices.Contains(kinds, string(r.Scope.Kind())) ||
			access.NodeMay(caller.Node, caller.Tenants, r.Scope) != nil
	}), nil
}

func checkQuiescence(q lease.Quiescence) error {
	if q.Unknown < 0 {
		return &InputError{Field: "unknown_effects", Value: fmt.Sprint(q.Unknown), Problem: "must not be negative"}
	}
	return checkEffects(q.Left)
}

func checkEffects(effects []effect.Effect) error {
	if len(effects) > MaxEffects {
		return &InputError{Field: "effects", Value: fmt.Sprint(len(effects)), Problem: fmt.Sprintf("at most %d", MaxEffects)}
	}
	for i, e := range effects {
		field := fmt.Sprintf("effects[%d].", i)
		if err := checkULID(field+"id", e.ID); err != nil {
			return err
		}
		if lease.Certainty(e.State) < 0 {
			return &InputError{Field: field + "state", Value: clip(string(e.State)), Problem: "is not a state of an effect"}
		}
		for name, text := range map[string]string{
			"provider": e.Provider, "operation": e.Operation, "retry_safety": string(e.Safety), "idempotency_key": e.Key, "reason": e.Reason,
		} {
			if len(text) > MaxReason {
				return &InputError{Field: field + name, Value: clip(text), Problem: fmt.Sprintf("at most %d bytes", MaxReason)}
			}
		}
	}
	return nil
}

func checkFinding(f Finding) error {
	if len(f.Resolutions) == 0 && !f.Reopen {
		return &InputError{Field: "resolutions", Problem: "must name at least one effect, or reopen must be set"}
	}
	if len(f.Resolutions) > MaxEffects {
		return &InputError{Field: "resolutions", Value: fmt.Sprint(len(f.Resolutions)), Problem: fmt.Sprintf("at most %d", MaxEffects)}
	}
	for i, r := range f.Resolutions {
		if err := checkText(fmt.Sprintf("resolutions[%d].seen", i), r.Seen, MaxReason); err != nil {
			return err
		}
	}
	if f.Reopen {
		return checkText("seen", f.Seen, MaxReason)
	}
	return nil
}
