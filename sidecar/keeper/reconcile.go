package keeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// ErrNotConfirmed says that the authority does not count the lease of an effect
// any more: it must not be sent.
var ErrNotConfirmed = errors.New("keeper: the authority did not confirm the effect")

// Confirm asks the authority, once and within ctx, whether an effect may be
// sent under a hold, and makes it evidence there: whoever gets the scope next
// knows of it. Without nil nothing may be sent. Errors: ErrNotConfirmed,
// ErrUnreachable, ctx's.
func (k *Keeper) Confirm(ctx context.Context, t ownership.Term, e effect.Effect) error {
	k.cfg.Effects.Told(e.ID) // also when the answer is lost
	a, err := k.link.Confirm(ctx, Confirmation{
		Session: k.status.Load().id, Nonce: k.nonce, Effect: e,
		Lease: LeaseRef{Scope: t.Scope, Lease: t.Lease, Epoch: uint64(t.Epoch)},
	})
	if err != nil {
		return fmt.Errorf("confirm effect: %w", err)
	}
	if a.Code != lease.Claimed {
		k.post(k.startFetch) // the set says what became of the lease
		return fmt.Errorf("%w: %s", ErrNotConfirmed, a.Detail)
	}
	return nil
}

// Resolve records what a controller found, under his hold with purpose
// reconcile. Errors: ErrNoHold, ErrUnreachable, *MalformedError, ctx's.
func (k *Keeper) Resolve(ctx context.Context, key ownership.Key, f Finding) (lease.Answer, error) {
	var c Command
	err := k.do(ctx, func() {
		if h := k.holds[key]; h != nil && h.m.Term.State == ownership.Owned && k.session.id != "" {
			t := h.m.Term
			ref := LeaseRef{Scope: t.Scope, Lease: t.Lease, Epoch: uint64(t.Epoch)}
			c = k.command(k.session, Command{Resolve: &ResolveCommand{LeaseRef: ref, Finding: f}})
		}
	})
	if err != nil {
		return lease.Answer{}, err
	}
	if c.ID == "" {
		return lease.Answer{}, ErrNoHold
	}
	a, err := k.link.Do(ctx, c)
	if err != nil {
		return lease.Answer{}, fmt.Errorf("resolve %s: %w", c.Resolve.Scope, err)
	}
	return a, nil
}
