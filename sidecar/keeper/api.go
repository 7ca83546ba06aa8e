package keeper

import (
	"context"
	"fmt"

	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// Start asks for a hold and returns at once: its key, and a channel that tells
// every change of its term, the latest wins, closed after the final one. A
// request with the command id of an earlier one of the same user attaches to
// it. What the caller does not see through must be Abandoned.
func (k *Keeper) Start(ctx context.Context, r Request) (ownership.Key, <-chan ownership.Term, error) {
	var key ownership.Key
	var terms chan ownership.Term
	err := k.do(ctx, func() {
		h := k.commands[r.CommandID]
		if r.CommandID == "" || h == nil || h.req.UID != r.UID {
			h = k.ask(r)
		}
		key, terms = h.key, h.watch()
	})
	return key, terms, err
}

// Acquire is Start, seen through to ownership. When ctx ends first the request
// is given up and what was granted goes back. Errors: *RefusedError,
// ErrStopped, ctx's.
func (k *Keeper) Acquire(ctx context.Context, r Request) (ownership.Term, error) {
	key, terms, err := k.Start(ctx, r)
	if err != nil {
		return ownership.Term{}, err
	}
	var last ownership.Term
	for {
		select {
		case <-ctx.Done():
			k.Abandon(key)
			return last, ctx.Err()
		case <-k.stopped:
			return last, ErrStopped
		case t, open := <-terms:
			switch {
			case !open:
				return last, &RefusedError{Term: last}
			case t.State == ownership.Owned:
				return t, nil
			}
			last = t
		}
	}
}

// ask begins a request, on the loop.
func (k *Keeper) ask(r Request) *hold {
	key := ownership.NewKey()
	h := newHold(ownership.New(ownership.Term{Key: key, Scope: r.Scope, Holder: r.Holder, Purpose: r.Purpose}, k.timing), r)
	h.askedAt = k.cfg.Clock.Boot()
	h.waitUntil = h.askedAt.Add(max(r.Wait, answerTimeout))
	k.holds[key] = h
	if r.CommandID != "" {
		k.commands[r.CommandID] = h
	}
	k.dirty = true
	k.startAcquire(h)
	return h
}

// Release ends a hold in order: no new effect starts, what runs settles, the
// authority gets the receipt. It returns the final term. Releasing a Lost hold
// forgets it.
func (k *Keeper) Release(ctx context.Context, key ownership.Key) (ownership.Term, error) {
	var terms chan ownership.Term
	var last ownership.Term
	err := k.do(ctx, func() {
		h := k.holds[key]
		if h == nil {
			return
		}
		terms, last = h.watch(), h.m.Term
		if h.m.Term.State == ownership.Lost {
			h.m.CallerLeft = true
			if !h.retiring || h.forgetAt != 0 {
				k.remove(h)
			}
			return
		}
		k.step(h, ownership.Event{Kind: ownership.EvRelease, Now: k.cfg.Clock.Boot()})
	})
	if err != nil {
		return ownership.Term{}, err
	}
	if terms == nil {
		return ownership.Term{}, ErrNoHold
	}
	for {
		select {
		case <-ctx.Done():
			return last, ctx.Err()
		case <-k.stopped:
			return last, ErrStopped
		case t, open := <-terms:
			if !open {
				return last, nil
			}
			last = t
		}
	}
}

// Abandon ends a hold whose caller is gone: the gate closes and what is in
// flight is cut at once (FC-12).
func (k *Keeper) Abandon(key ownership.Key) {
	k.post(func() {
		h := k.holds[key]
		if h == nil {
			return
		}
		if h.m.Term.State == ownership.Lost {
			h.m.CallerLeft = true
			if h.forgetAt != 0 {
				k.remove(h)
			}
			return
		}
		k.step(h, ownership.Event{Kind: ownership.EvCallerGone, Now: k.cfg.Clock.Boot()})
	})
}

// Reattach binds a hold to a new caller: the holder of its key, after a
// restart of the sidecar.
func (k *Keeper) Reattach(ctx context.Context, key ownership.Key, uid uint32, b Binding) (ownership.Term, error) {
	var t ownership.Term
	found := false
	err := k.do(ctx, func() {
		h := k.holds[key]
		if h == nil || h.req.UID != uid || h.m.Term.State == ownership.Releasing {
			return
		}
		found, t = true, h.m.Term
		h.req.Binding, h.endBy = b, 0
		record, id := k.record(h), h.m.Term.Lease
		if id != "" {
			k.persist(func() error { return k.cfg.Cache.PutHold(record) }, nil)
		}
	})
	if err != nil {
		return t, err
	}
	if !found {
		return t, ErrNoHold
	}
	return t, nil
}

// Watch sends the term at every change, the latest wins, and closes after the
// final one or with ctx.
func (k *Keeper) Watch(ctx context.Context, key ownership.Key) (<-chan ownership.Term, error) {
	var terms chan ownership.Term
	err := k.do(ctx, func() {
		if h := k.holds[key]; h != nil {
			terms = h.watch()
		}
	})
	if err != nil {
		return nil, err
	}
	if terms == nil {
		return nil, ErrNoHold
	}
	context.AfterFunc(ctx, func() {
		k.post(func() {
			if h := k.holds[key]; h != nil {
				if _, watching := h.watchers[terms]; watching {
					delete(h.watchers, terms)
					close(terms)
				}
			}
		})
	})
	return terms, nil
}

// Held is one hold with what belongs to its caller.
type Held struct {
	Term     ownership.Term
	UID      uint32
	Binding  Binding
	InFlight int64
}

// Holds returns every hold.
func (k *Keeper) Holds(ctx context.Context) ([]Held, error) {
	var out []Held
	err := k.do(ctx, func() {
		for _, h := range k.holds {
			out = append(out, Held{Term: h.m.Term, UID: h.req.UID, Binding: h.req.Binding, InFlight: h.inFlight.Load()})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list holds: %w", err)
	}
	return out, nil
}

// View is the last published one; it takes no lock.
func (k *Keeper) View() *ownership.View { return k.view.Load() }

// Status tells what was last published, by the clock of this moment: it takes
// no lock, and a loop that is dead does not keep it confirmed.
func (k *Keeper) Status() Status {
	v := k.status.Load()
	s := Status{Session: v.id, State: "registering", Detail: v.detail, ConfirmedAgo: -1, Version: v.version}
	if v.id != "" {
		s.State = "unconfirmed"
	}
	if v.confirmed != 0 {
		s.ConfirmedAgo = k.cfg.Clock.Boot().Sub(v.confirmed)
		if s.ConfirmedAgo < k.cfg.Budget.UncertainAfter {
			s.State = "confirmed"
		}
	}
	return s
}

// ReleaseAll gives every hold back, for a stop that is not followed by a
// start.
func (k *Keeper) ReleaseAll(ctx context.Context) error {
	held, err := k.Holds(ctx)
	if err != nil {
		return err
	}
	for _, h := range held {
		if _, err := k.Release(ctx, h.Term.Key); err != nil {
			return fmt.Errorf("release %s: %w", h.Term.Scope, err)
		}
	}
	return nil
}
