package keeper

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// keepLost is how long a Lost hold stays known, so that its holder is told why
// instead of "no hold".
const keepLost = time.Hour

// hold is one machine with what the loop needs around it.
type hold struct {
	key       ownership.Key // never changes
	m         ownership.Machine
	req       Request
	inFlight  *atomic.Int64
	watchers  map[chan ownership.Term]struct{}
	leaseID   string           // chosen for the present request to the authority
	grantedAt lease.SetVersion // of the answer that granted: an older set cannot have the lease yet

	askedAt    boottime.Instant // by the caller
	claimAcked bool             // the authority has the claim
	limited    bool             // the lease has a limit of its own
	ownEnd     boottime.Instant // that limit; 0: none, or not known yet
	retiring   bool             // a release is under way
	settleCut  bool             // at settleBy
	owing      bool             // the release waits for a session
	orphaned   bool             // its session is over: there is nobody to release to
	quiet      bool             // it is over, and nothing is in flight any more

	retryAt   boottime.Instant // Waiting: next attempt
	waitUntil boottime.Instant // Waiting: give up
	endBy     boottime.Instant // detached, or waiting for its holder to attach again
	settleBy  boottime.Instant // Releasing: what still runs is cut
	forgetAt  boottime.Instant // Lost: drop it
}

func newHold(m ownership.Machine, r Request) *hold {
	return &hold{key: m.Term.Key, m: m, req: r, inFlight: &atomic.Int64{}, watchers: map[chan ownership.Term]struct{}{}}
}

// live reports whether a confirmation may still change it.
func (h *hold) live() bool { return !h.m.Final() && h.m.Term.State != ownership.Releasing }

// tell hands the term to every watcher; a slow one finds only the latest.
func (h *hold) tell() {
	for ch := range h.watchers {
		select {
		case <-ch:
		default:
		}
		ch <- h.m.Term
		if h.m.Final() {
			close(ch)
			delete(h.watchers, ch)
		}
	}
}

func (h *hold) watch() chan ownership.Term {
	ch := make(chan ownership.Term, 1)
	ch <- h.m.Term
	if h.m.Final() {
		close(ch)
		return ch
	}
	h.watchers[ch] = struct{}{}
	return ch
}

func (k *Keeper) eachHold(e ownership.Event) {
	for _, h := range k.holds {
		k.step(h, e)
	}
}

// step feeds one event and does what the machine asks for. Publication and
// cuts wait for flush, which every turn of the loop ends with.
func (k *Keeper) step(h *hold, e ownership.Event) {
	before := h.m.Term
	next, actions := ownership.Step(h.m, e)
	h.m = next
	if next.Term != before {
		k.dirty = true
	}
	if next.Term.State != before.State {
		k.report(h, before.State)
		k.persistEnd(h)
		if next.Term.State == ownership.Lost {
			k.patrol.soon(k)
		}
	}
	for _, a := range actions {
		k.act(h, a)
	}
}

// persistEnd makes the end of a hold durable: a restart must not find it
// unconfirmed and take it up again.
func (k *Keeper) persistEnd(h *hold) {
	t := h.m.Term
	if t.Lease == "" || h.orphaned || (t.State != ownership.Releasing && t.State != ownership.Lost) {
		return
	}
	record := k.record(h)
	k.persist(func() error { return k.cfg.Cache.PutHold(record) }, nil)
}

func (k *Keeper) act(h *hold, a ownership.Action) {
	switch a {
	case ownership.DoPublish:
		k.dirty = true
	case ownership.DoAcquire:
		k.startAcquire(h)
	case ownership.DoClaim:
		k.startClaim(h)
	case ownership.DoCut:
		k.cuts = append(k.cuts, h.m.Term.Key)
	case ownership.DoRetire:
		k.startRetire(h)
	case ownership.DoForget:
		k.forget(h)
	}
}

// forget drops a hold that has reached its end. A Lost one stays for a while.
func (k *Keeper) forget(h *hold) {
	k.dirty = true
	if h.m.Term.Lease != "" {
		id := h.m.Term.Lease
		k.persist(func() error { return k.cfg.Cache.DeleteHold(id) }, nil)
	}
	if h.m.Term.State == ownership.Lost && !h.m.CallerLeft {
		h.forgetAt = k.cfg.Clock.Boot().Add(keepLost)
		return
	}
	k.remove(h)
}

func (k *Keeper) remove(h *hold) {
	k.dirty = true
	h.tell()
	delete(k.holds, h.m.Term.Key)
	if h.req.CommandID != "" {
		delete(k.commands, h.req.CommandID)
	}
	k.cuts = append(k.cuts, h.m.Term.Key)
	k.gone = append(k.gone, h.m.Term.Key)
}

// timers does what the hold's own timers ask for.
func (k *Keeper) timers(h *hold, now boottime.Instant) {
	if h.m.Term.State == ownership.Releasing && !h.settleCut && h.settleBy != 0 && !now.Before(h.settleBy) {
		h.settleCut = true
		k.cuts = append(k.cuts, h.key)
	}
	due := func(at *boottime.Instant) bool {
		if *at == 0 || now.Before(*at) {
			return false
		}
		*at = 0
		return true
	}
	if due(&h.waitUntil) && (h.m.Term.State == ownership.Waiting || h.m.Term.State == ownership.Acquiring) {
		k.giveUp(h)
	}
	if due(&h.retryAt) {
		k.step(h, ownership.Event{Kind: ownership.EvRetry, Now: now})
	}
	if due(&h.endBy) {
		k.step(h, ownership.Event{Kind: ownership.EvCallerGone, Now: now})
	}
	if due(&h.forgetAt) {
		k.remove(h)
	}
}

// giveUp ends a request whose waiting time is over. A grant that is still on
// its way comes back with the next set, and is given back.
func (k *Keeper) giveUp(h *hold) {
	reason, detail := ownership.WaitTimeout, "the scope stayed busy for the whole wait"
	if h.m.Term.Successor == nil {
		reason, detail = ownership.AuthorityUnreachable, "the authority did not answer in time"
	}
	if h.m.Term.Lease != "" { // granted, not confirmed: it must be given back
		k.step(h, ownership.Event{
			Kind: ownership.EvRelease, Now: k.cfg.Clock.Boot(), Reason: ownership.AuthorityUnreachable,
			Detail: "the authority granted the scope and did not confirm the claim in time",
		})
		return
	}
	k.step(h, ownership.Event{Kind: ownership.EvRefused, Reason: reason, Detail: detail, Now: k.cfg.Clock.Boot()})
}

// report logs and counts a change of state.
func (k *Keeper) report(h *hold, from ownership.State) {
	t := h.m.Term
	k.metrics.transitions.WithLabelValues(string(from), string(t.State)).Inc()
	if t.State == ownership.Lost {
		k.metrics.lost.WithLabelValues(string(t.Reason)).Inc()
	}
	fields := []zap.Field{
		zap.Stringer("scope", t.Scope), zap.String("node", k.cfg.Node), zap.Stringer("epoch", t.Epoch), zap.String("state", string(t.State)),
		zap.String("from", string(from)), zap.String("reason", string(t.Reason)), zap.String("detail", t.Detail), zap.String("lease", t.Lease),
	}
	if t.Successor != nil {
		fields = append(fields, zap.String("successor", t.Successor.Holder.ID), zap.Stringer("successor_epoch", t.Successor.Epoch))
	}
	if t.State == ownership.Lost || t.State == ownership.Uncertain {
		k.cfg.Log.Warn("hold", fields...)
		return
	}
	if t.State == ownership.Acquiring || t.State == ownership.Waiting {
		k.cfg.Log.Debug("hold", fields...) // once for each attempt
		return
	}
	k.cfg.Log.Info("hold", fields...)
}

// byLease finds the hold that a lease of the set belongs to.
func (k *Keeper) byLease(id string) *hold {
	for _, h := range k.holds {
		if h.m.Term.Lease == id || h.leaseID == id {
			return h
		}
	}
	return nil
}
