package keeper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/cache"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// Registration implements the uplink's Registrar.
func (k *Keeper) Registration() (Registration, error) {
	receipts, err := k.cfg.Cache.Receipts()
	if err != nil {
		return Registration{}, fmt.Errorf("read receipts: %w", err)
	}
	r := Registration{
		Nonce: k.nonce, BootID: k.cfg.BootID, LockFile: k.cfg.LockFile, TTL: k.cfg.Budget.TTL, Receipts: receipts,
	}
	closing := false
	err = k.do(context.Background(), func() {
		closing = k.closing
		if k.session.id == "" && k.former.ID != "" {
			r.Resume, r.ResumeNonce = k.former.ID, k.former.Nonce
		}
	})
	if closing { // the close may still be on its way, and ends whatever has this nonce
		return Registration{}, ErrStopped
	}
	return r, err
}

// Registered implements the uplink's Registrar: the session is durable before
// anything else is asked on it.
func (k *Keeper) Registered(ctx context.Context, r Registered) error {
	budget := k.cfg.Budget
	budget.LockDelay = r.LockDelay
	if err := budget.Validate(); err != nil {
		return fmt.Errorf("session budget with the authority's lock delay: %w", err)
	}
	record := cache.Session{ID: r.Session, Nonce: k.nonce, BootID: k.cfg.BootID, TTL: budget.TTL, AuthorityID: r.AuthorityID}
	if err := k.do(ctx, func() { record.ConfirmedAt = k.confirmedBy(r) }); err != nil {
		return err
	}
	stored := make(chan error, 1)
	k.persist(func() error { return k.cfg.Cache.PutSession(record) }, func(err error) { stored <- err })
	select {
	case err := <-stored:
		if err != nil {
			return fmt.Errorf("store session: %w", err)
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	return k.do(ctx, func() { k.begin(r, record) })
}

// confirmedBy is the instant that a registration proves: an opened session
// lives for its ttl from there; a resumed one was not extended.
func (k *Keeper) confirmedBy(r Registered) boottime.Instant {
	if !r.Resumed {
		return r.SentAt
	}
	if k.former.ID == r.Session {
		return max(k.former.ConfirmedAt, k.session.confirmed)
	}
	return 0
}

// begin takes over a session. Holds of another one are over.
func (k *Keeper) begin(r Registered, record cache.Session) {
	same := k.session.id == r.Session || (k.session.id == "" && k.former.ID == r.Session && r.Resumed)
	if !same {
		k.endSession(ownership.Expired, "the authority gave this node a new session")
		k.persist(func() error { return k.cfg.Cache.PutSession(record) }, nil) // what ended took the record with it
	}
	if k.session.id != r.Session {
		ctx, cancel := context.WithCancel(context.Background())
		k.session = session{id: r.Session, ctx: ctx, cancel: cancel}
	}
	k.former = record
	k.session.connected, k.session.detail = true, ""
	k.nextBeat = k.cfg.Clock.Boot()
	k.patrol.soon(k)
	k.startFetch()
	for _, h := range k.holds {
		if h.owing {
			h.owing = false
			k.settle(h, k.session, h.m.Term)
		}
	}
}

// Waiting implements the uplink's Registrar. A node that was revoked stops at
// once.
func (k *Keeper) Waiting(a lease.Answer) {
	if a.Reason == lease.NodeConflict {
		k.metrics.conflicts.Inc()
	}
	k.post(func() {
		detail := fmt.Sprintf("%s (%s): %s", a.Code, a.Reason, a.Detail)
		if a.Reason == lease.NodeRevoked && (k.session.id != "" || k.former.ID != "") {
			k.endSession(ownership.Revoked, detail) // nothing is gained by trusting it to the end
		}
		k.session.detail = detail
	})
}

// Disconnected implements the uplink's Registrar.
func (k *Keeper) Disconnected() {
	k.post(func() { k.session.connected = false })
}

// Nudged implements the uplink's Registrar: a hint, worth a fetch when it is
// newer than what was applied.
func (k *Keeper) Nudged(v lease.SetVersion) {
	k.post(func() {
		if k.session.tracker.Judge(v) != ownership.Ignore {
			k.startFetch()
		}
	})
}

// endSession loses every hold: the authority counts nothing for them any more.
func (k *Keeper) endSession(why ownership.Reason, detail string) {
	if k.session.cancel != nil {
		k.session.cancel()
	}
	k.session = session{detail: detail}
	k.former = cache.Session{}
	now := k.cfg.Clock.Boot()
	for _, h := range k.holds {
		if h.m.Term.State == ownership.Acquiring || h.m.Term.State == ownership.Waiting {
			k.askAgain(h, now) // on the next session; what this one may have granted ends with it
			continue
		}
		h.orphaned = true
		k.step(h, ownership.Event{Kind: ownership.EvDropped, Now: now, Reason: why, Detail: detail})
	}
	k.persist(k.cfg.Cache.Reset, nil)
}

// refusedSession answers a refusal of the session itself.
func (k *Keeper) refusedSession(reason lease.Reason, detail string) {
	k.cfg.Log.Warn("session refused", zap.String("node", k.cfg.Node), zap.String("session", k.session.id), zap.String("reason", string(reason)))
	why := ownership.Expired
	if reason == lease.NodeRevoked {
		why = ownership.Revoked
	}
	k.endSession(why, "the authority refused the session: "+string(reason)+" "+detail)
	k.link.Reregister()
}

// startBeat sends one heartbeat: the durable write first, then the reading of
// boottime that everything in the answer counts from.
func (k *Keeper) startBeat() {
	ctx, n := k.session.beat.start(k.session.ctx, k.attemptUntil())
	s := k.session
	record := k.former
	record.ConfirmedAt = max(record.ConfirmedAt, s.confirmed)
	k.persist(func() error { return k.cfg.Cache.PutSession(record) }, func(err error) {
		if k.session.id != s.id || !k.session.beat.is(n) {
			return
		}
		if err != nil {
			k.beatFailed(err)
			return
		}
		go k.beat(ctx, s, n)
	})
}

func (k *Keeper) beat(ctx context.Context, s session, n int) {
	changes := k.cfg.Effects.Changes(mostChanges)
	sentAt := k.cfg.Clock.Boot()
	a, err := k.link.Heartbeat(ctx, Beat{
		Beat: lease.Beat{Session: s.id, Nonce: k.nonce, Applied: s.tracker.Applied}, Effects: changes,
	})
	if err == nil && a.Taken {
		k.cfg.Effects.Acknowledge(changes)
	}
	k.post(func() {
		if k.session.id != s.id || !k.session.beat.is(n) {
			return // a late reply of an attempt that was given up (FC-57)
		}
		if err != nil {
			k.beatFailed(err)
			return
		}
		k.beatDone(sentAt, a.Answer)
	})
}

// attemptUntil bounds one attempt: when it is given up the holds become
// uncertain, and the next one has the time up to the hard deadline.
func (k *Keeper) attemptUntil() boottime.Instant {
	return k.cfg.Clock.Boot().Add(max(k.cfg.Budget.UncertainAfter-k.cfg.Budget.Interval, k.cfg.Budget.Interval))
}

// giveUpSlow ends the attempts that have used up their time.
func (k *Keeper) giveUpSlow(now boottime.Instant) {
	if k.session.beat.overdue(now) {
		k.beatFailed(errSlow)
	}
	if k.session.fetch.overdue(now) {
		k.fetched(now, Set{}, errSlow)
	}
}

// giveUpBeat sends a heartbeat at once; the answer to one that is under way
// comes too late (FC-57).
func (k *Keeper) giveUpBeat() {
	k.session.beat.end()
	k.nextBeat = k.cfg.Clock.Boot()
}

func (k *Keeper) beatFailed(err error) {
	k.session.beat.end()
	k.metrics.beats.WithLabelValues("failed").Inc()
	half := k.cfg.Budget.Interval / 4
	k.nextBeat = k.cfg.Clock.Boot().Add(half + rand.N(half+1))
	k.cfg.Log.Warn("heartbeat", zap.String("node", k.cfg.Node), zap.Int("attempt", k.session.beat.number), zap.Error(err))
}

func (k *Keeper) beatDone(sentAt boottime.Instant, a lease.Answer) {
	k.session.beat.end()
	k.nextBeat = sentAt.Add(k.cfg.Budget.Interval)
	if a.Code != lease.Renewed {
		k.metrics.beats.WithLabelValues("refused").Inc()
		k.refusedSession(a.Reason, a.Detail)
		return
	}
	k.metrics.beats.WithLabelValues("renewed").Inc()
	k.account()
	if !k.session.tracker.Extends(a.Version) {
		k.startFetch() // nothing is extended until that set is applied (FC-91)
		return
	}
	k.confirmAll(sentAt, a.Remaining)
}

// confirmAll extends every claimed hold of the applied set. One with a limit of
// its own that is not known yet waits for the set.
func (k *Keeper) confirmAll(sentAt boottime.Instant, remaining time.Duration) {
	full := sentAt.Add(min(remaining-k.cfg.Budget.TTL, 0)) // a process after this one counts a whole ttl from it
	k.session.confirmed = max(k.session.confirmed, full)
	for _, h := range k.holds {
		if h.limited && h.ownEnd == 0 && h.live() {
			k.startFetch()
			continue
		}
		k.confirm(h, sentAt, remaining)
	}
}

func (k *Keeper) confirm(h *hold, sentAt boottime.Instant, remaining time.Duration) {
	if !h.claimAcked || h.orphaned {
		return
	}
	if h.ownEnd != 0 {
		remaining = min(remaining, h.ownEnd.Sub(sentAt))
	}
	k.step(h, ownership.Event{Kind: ownership.EvConfirmed, Now: k.cfg.Clock.Boot(), SentAt: sentAt, Remaining: remaining})
}

// startFetch asks for the whole set; while one fetch runs another is owed.
func (k *Keeper) startFetch() {
	if k.session.id == "" || k.closing {
		return
	}
	if k.session.fetch.running {
		k.session.again = true
		return
	}
	k.session.again = false
	ctx, n := k.session.fetch.start(k.session.ctx, k.attemptUntil())
	s := k.session
	var known []string
	for _, h := range k.holds {
		if h.m.Term.Lease != "" && !h.orphaned && !h.m.Final() {
			known = append(known, h.m.Term.Lease)
		}
	}
	go func() {
		sentAt := k.cfg.Clock.Boot()
		set, err := k.link.FetchSet(ctx, s.id, k.nonce, known)
		k.post(func() {
			if k.session.id != s.id || !k.session.fetch.is(n) {
				return
			}
			k.fetched(sentAt, set, err)
		})
	}()
}

func (k *Keeper) fetched(sentAt boottime.Instant, set Set, err error) {
	k.session.fetch.end()
	switch {
	case err != nil:
		k.cfg.Log.Warn("fetch set", zap.String("node", k.cfg.Node), zap.Error(err))
		return // the next heartbeat's answer asks again
	case set.Refused != lease.NoReason:
		k.refusedSession(set.Refused, set.Detail)
		return
	case !set.Version.Before(k.session.tracker.Applied): // else a delta overtook it
		k.applySet(sentAt, set)
	}
	if k.session.again {
		k.startFetch()
	}
}
