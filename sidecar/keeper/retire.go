package keeper

import (
	"time"

	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// startRetire runs the release protocol beside the loop: Releasing or Lost was
// published, so the count only falls; then effects settle or stay unknown;
// then the authority gets the release with that receipt. What still runs after
// settle_timeout is cut, so that no hanging call keeps a scope.
func (k *Keeper) startRetire(h *hold) {
	if h.retiring {
		return
	}
	h.retiring = true
	h.settleBy = k.cfg.Clock.Boot().Add(k.cfg.SettleTimeout)
	k.flush() // the publication comes before the look at the count (FC-103)
	idle := k.cfg.Gate.Idle(h.m.Term.Key)
	s, t := k.session, h.m.Term
	go func() {
		select {
		case <-idle:
		case <-k.stopped:
			return
		}
		k.post(func() { k.settle(h, s, t) })
	}()
}

// settle waits for the outcomes; what has none by then is unknown.
func (k *Keeper) settle(h *hold, s session, t ownership.Term) {
	h.quiet = true
	k.account()        // it may be waited for already
	if t.Lease == "" { // nothing was granted, so nothing ran
		k.step(h, ownership.Event{Kind: ownership.EvReleased, Now: k.cfg.Clock.Boot()})
		return
	}
	if h.orphaned {
		k.step(h, ownership.Event{Kind: ownership.EvReleased, Now: k.cfg.Clock.Boot()})
		return
	}
	if s.ctx == nil { // it ended before this process had a session
		s = k.session
	}
	if s.ctx == nil {
		h.owing = true // the authority counts it still: begin releases it
		return
	}
	parent, left := s.ctx, k.settleTime(h)
	why := lease.Released
	if h.m.CallerLeft || t.State == ownership.Lost {
		why = lease.CallerGone
	}
	go func() {
		ctx, cancel := k.withTimeout(parent, left)
		defer cancel()
		_ = k.cfg.Effects.WaitSettled(ctx, t.Lease) // what did not settle is counted below
		k.release(h, s, t, why, k.quiescence(t.Lease))
	}()
}

// settleTime is what is left of settle_timeout. Calls that were just cut get a
// moment to record their outcome.
func (k *Keeper) settleTime(h *hold) time.Duration {
	return max(h.settleBy.Sub(k.cfg.Clock.Boot()), min(k.cfg.SettleTimeout, time.Second))
}

// release sends the receipt until the authority has it or the session ends.
func (k *Keeper) release(h *hold, s session, t ownership.Term, why lease.EndReason, q lease.Quiescence) {
	ref := LeaseRef{Scope: t.Scope, Lease: t.Lease, Epoch: uint64(t.Epoch)}
	a, err := k.link.Do(s.ctx, k.command(s, Command{Release: &ReleaseCommand{LeaseRef: ref, Why: why, Quiescence: q}}))
	k.post(func() {
		if err != nil {
			k.cfg.Log.Warn("release", zap.Stringer("scope", t.Scope), zap.String("node", k.cfg.Node), zap.Stringer("epoch", t.Epoch), zap.Error(err))
		} else if k.session.id == s.id {
			k.hint(a)
			k.afterRelease(t.Lease, a)
		}
		k.metrics.unknown.Add(float64(q.Unknown))
		k.step(h, ownership.Event{Kind: ownership.EvReleased, Now: k.cfg.Clock.Boot()})
	})
}
