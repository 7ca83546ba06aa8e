package keeper

import (
	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// applySet makes the holds agree with a set, and only after the gates of what
// it took away were closed and its connections cut records it as applied
// (DESIGN 3, Session 5 and 7).
func (k *Keeper) applySet(sentAt boottime.Instant, set Set) {
	present := make(map[string]SetLease, len(set.Leases))
	for _, l := range set.Leases {
		present[l.ID] = l
	}
	ended := make(map[string]Ended, len(set.Ended))
	for _, e := range set.Ended {
		ended[e.Lease.ID] = e
	}
	for _, h := range k.holds {
		k.reconcile(h, sentAt, set.Version, present, ended)
	}
	k.flush() // publishes, then cuts
	k.session.tracker = k.session.tracker.Apply(set.Version)
	k.oweds(set.Owed)
	for _, l := range set.Leases {
		if k.byLease(l.ID) == nil {
			k.giveBackOrphan(l.Lease)
		}
	}
	k.confirmAll(sentAt, set.Remaining)
}

// reconcile compares one hold with the set. A set that was taken before the
// grant and comes after it does not know the lease yet: it proves nothing.
func (k *Keeper) reconcile(h *hold, sentAt boottime.Instant, version lease.SetVersion, present map[string]SetLease, ended map[string]Ended) {
	if h.orphaned {
		return
	}
	now := k.cfg.Clock.Boot()
	id := h.m.Term.Lease
	if id == "" {
		id = h.leaseID
	}
	l, ok := present[id]
	switch {
	case !ok && (h.m.Term.Lease == "" || version.Before(h.grantedAt)):
		return // not granted, or not yet
	case !ok:
		e := ended[id]
		k.drop(h, dropEvent(now, e.Lease, e.Successor))
	case l.State == lease.Draining:
		k.drop(h, dropEvent(now, l.Lease, nil))
	default:
		h.ownEnd, h.limited = 0, l.OwnRemaining >= 0
		if h.limited {
			h.ownEnd = sentAt.Add(l.OwnRemaining)
		}
		if l.State == lease.Live {
			h.claimAcked = true
		}
		k.step(h, ownership.Event{Kind: ownership.EvGranted, Now: now, Lease: l.ID, Epoch: l.Epoch, Confirm: l.Confirm})
	}
}

// drop loses a hold that the set took away; the authority waits to hear that
// this was applied, so it is told at once (DESIGN 3, Session 7b).
func (k *Keeper) drop(h *hold, e ownership.Event) {
	k.step(h, e)
	k.nextBeat = e.Now
}

// dropEvent says in typed words why a lease is not ours any more (FC-27).
func dropEvent(now boottime.Instant, l lease.Lease, successor *lease.Summary) ownership.Event {
	e := ownership.Event{Kind: ownership.EvDropped, Now: now, Reason: ownership.Expired, Successor: successor}
	switch l.EndReason {
	case lease.ForceReleased, lease.ForcedUnreconciled, lease.Revoked:
		e.Reason = ownership.Revoked
		e.Detail = "released by " + l.EndedBy + ": " + l.EndDetail
	case lease.HistoryWasCut, lease.DoublyOwned:
		e.Reason = ownership.Revoked
		e.Detail = "ended by the authority (" + string(l.EndReason) + "): " + l.EndDetail
	case lease.Superseded, lease.HandedOff:
		e.Reason = ownership.Superseded
		e.Detail = l.EndDetail
	case lease.MaxHold:
		e.Detail = "held for longer than the policy allows"
	case lease.Unclaimed:
		e.Detail = "the grant was not claimed in time"
	case lease.Expired:
		e.Detail = "the session went silent for longer than its ttl"
	case lease.Released, lease.CallerGone:
		e.Detail = "already released"
	default:
		e.Detail = "the authority does not count it any more"
	}
	if successor != nil && e.Reason == ownership.Expired {
		e.Reason = ownership.Superseded
	}
	return e
}

// giveBackOrphan releases a lease of the set that no hold belongs to: the rest
// of a former process, or a grant that nobody waits for any more.
func (k *Keeper) giveBackOrphan(l lease.Lease) {
	if k.releasing[l.ID] {
		return
	}
	k.releasing[l.ID] = true
	s := k.session
	q := k.quiescence(l.ID)
	q.Partial = q.Partial && l.State != lease.Granted // nothing ran under a grant that was never claimed
	ref := LeaseRef{Scope: l.Scope, Lease: l.ID, Epoch: uint64(l.Epoch)}
	go func() {
		a, err := k.link.Do(s.ctx, k.command(s, Command{Release: &ReleaseCommand{LeaseRef: ref, Why: lease.CallerGone, Quiescence: q}}))
		k.post(func() {
			delete(k.releasing, l.ID)
			if err == nil && k.session.id == s.id {
				k.hint(a)
				k.afterRelease(l.ID, a)
			}
		})
	}()
}

// hint follows up an answer that names a version. Only what changed the set by
// itself is a delta: the version in any other answer may be of a change that
// this node has not seen, a lease that must be silent perhaps, and to report
// it as applied would let the authority grant that lease's scope on (FC-90).
func (k *Keeper) hint(a lease.Answer) {
	changed := a.Code == lease.Acquired || a.Code == lease.Done
	switch verdict := k.session.tracker.Judge(a.Version); {
	case verdict == ownership.Ignore:
	case verdict == ownership.Delta && changed:
		k.session.tracker = k.session.tracker.Apply(a.Version)
	default:
		k.startFetch()
	}
}
