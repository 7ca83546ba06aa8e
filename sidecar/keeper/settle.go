package keeper

import (
	"context"
	"fmt"

	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// Settle is the first half of a release (DESIGN 3, Group modes): from now on no
// effect starts under the hold, over a restart too, and the call returns when
// those under way have an outcome, Unknown included. The lease is kept, so that
// the caller can bring his own record to its end before he calls Release. With
// ctx's error something still runs; Release bounds that. Errors: ErrNoHold when
// nothing is owned, ErrStopped, ctx's.
func (k *Keeper) Settle(ctx context.Context, key ownership.Key) (ownership.Term, error) {
	var idle <-chan struct{}
	var t ownership.Term
	err := k.do(ctx, func() {
		h := k.holds[key]
		if h == nil || (h.m.Term.State != ownership.Owned && h.m.Term.State != ownership.Uncertain) {
			return
		}
		k.step(h, ownership.Event{Kind: ownership.EvSettle, Now: k.cfg.Clock.Boot()})
		record := k.record(h)
		k.persist(func() error { return k.cfg.Cache.PutHold(record) }, nil)
		k.flush() // the publication comes before the look at the count (FC-103)
		t, idle = h.m.Term, k.cfg.Gate.Idle(key)
	})
	if err != nil {
		return t, err
	}
	if idle == nil {
		return t, ErrNoHold
	}
	select {
	case <-idle:
	case <-ctx.Done():
		return t, fmt.Errorf("settle %s: %w", t.Scope, ctx.Err())
	case <-k.stopped:
		return t, ErrStopped
	}
	if err := k.cfg.Effects.WaitSettled(ctx, t.Lease); err != nil {
		return t, fmt.Errorf("settle %s: %w", t.Scope, err)
	}
	if e, ok := k.View().Holds[key]; ok {
		return e.Term, nil
	}
	return t, nil
}
