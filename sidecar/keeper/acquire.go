package keeper

import (
	"context"
	"crypto/rand"
	"errors"
	mrand "math/rand/v2"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/cache"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// Pacing of attempts at a busy scope.
const (
	longestPace   = 500 * time.Millisecond // however far the server's hint lies ahead: a holder may release early
	shortestPace  = 100 * time.Millisecond
	answerTimeout = 5 * time.Second // for the authority to say anything at all
)

// id mints a ULID.
func (k *Keeper) id() string {
	return ulid.MustNew(ulid.Timestamp(k.cfg.Clock.Now()), rand.Reader).String()
}

// command fills in what every command of a session carries.
func (k *Keeper) command(s session, c Command) Command {
	c.ID, c.Session, c.Nonce = k.id(), s.id, k.nonce
	return c
}

// startAcquire asks the authority once. The lease's id is chosen here, so that
// a grant whose answer is lost is recognised in the next set.
func (k *Keeper) startAcquire(h *hold) {
	if k.session.id == "" { // not registered yet
		k.askAgain(h, k.cfg.Clock.Boot().Add(shortestPace))
		return
	}
	h.leaseID = k.id()
	s := k.session
	c := k.command(s, Command{Acquire: &AcquireCommand{Scope: h.m.Term.Scope, Holder: h.m.Term.Holder, Purpose: h.req.Purpose, Lease: h.leaseID}})
	go func() {
		a, err := k.link.Do(s.ctx, c)
		k.post(func() { k.acquired(h, s, a, err) })
	}()
}

// askAgain lets a request that came to nothing wait for its next attempt.
func (k *Keeper) askAgain(h *hold, at boottime.Instant) {
	h.leaseID, h.claimAcked, h.grantedAt, h.limited = "", false, lease.SetVersion{}, false
	h.retryAt = max(at, 1)
	k.step(h, ownership.Event{Kind: ownership.EvUndecided, Now: k.cfg.Clock.Boot()})
}

func (k *Keeper) acquired(h *hold, s session, a lease.Answer, err error) {
	if k.session.id != s.id {
		return // asked again on the session of now; what the old one granted ends with it
	}
	now := k.cfg.Clock.Boot()
	if err == nil && a.Code == lease.Acquired && a.Lease != nil {
		k.keepReceipt(h, a)
		k.hint(a)
		if h.m.Final() || h.m.Term.State == ownership.Releasing {
			k.giveBackOrphan(*a.Lease)
			return
		}
		h.grantedAt = a.Version
		if d := h.req.Binding.Detach; d > 0 { // nobody's end will end it
			h.endBy = now.Add(d)
		}
		k.step(h, ownership.Event{Kind: ownership.EvGranted, Now: now, Lease: a.Lease.ID, Epoch: a.Epoch, Confirm: a.Lease.Confirm})
		return
	}
	if h.m.Final() || h.m.Term.State == ownership.Releasing {
		return
	}
	var malformed *MalformedError
	switch {
	case errors.As(err, &malformed):
		k.refuse(h, ownership.Refused, malformed.Detail, a)
	case err != nil || a.Reason == lease.SessionExpired || a.Reason == lease.SessionEnded || a.Reason == lease.SessionUnknown:
		k.askAgain(h, now.Add(shortestPace+mrand.N(longestPace))) // until the session is there again, or the wait is over
	case a.Code == lease.Busy && h.req.Wait > 0:
		k.step(h, ownership.Event{Kind: ownership.EvBusy, Now: now, Successor: a.Holder, Detail: a.Detail})
		h.waitUntil = max(h.askedAt.Add(h.req.Wait), 1) // it answers: what is left is the caller's own patience
		h.retryAt = now.Add(pace(a.RetryAfter))
	case a.Code == lease.Busy:
		detail := "the scope is busy"
		if a.Detail != "" { // nobody holds it, and yet
			detail += ": " + a.Detail
		}
		k.refuse(h, ownership.Refused, detail, a)
	case a.Reason == lease.ScopeBlocked || a.Reason == lease.ScopeQuarantined:
		k.refuse(h, ownership.Blocked, string(a.Reason)+": "+a.Detail, a)
	default:
		k.refuse(h, ownership.Refused, string(a.Reason)+": "+a.Detail, a)
	}
}

// pace spreads the attempts of many waiters around the server's hint (FC-41).
func pace(hint time.Duration) time.Duration {
	d := min(max(hint, shortestPace), longestPace)
	return d/2 + mrand.N(d)
}

func (k *Keeper) refuse(h *hold, reason ownership.Reason, detail string, a lease.Answer) {
	k.step(h, ownership.Event{Kind: ownership.EvRefused, Now: k.cfg.Clock.Boot(), Reason: reason, Detail: detail, Successor: a.Holder})
}

func (k *Keeper) keepReceipt(h *hold, a lease.Answer) {
	if len(a.Receipt) == 0 {
		return
	}
	r := cache.Receipt{Scope: h.m.Term.Scope.String(), Epoch: a.Epoch, Seal: a.Receipt}
	k.persist(func() error { return k.cfg.Cache.PutReceipt(r) }, nil)
}

// startClaim stores the hold, then claims it: what is Owned is always durable.
func (k *Keeper) startClaim(h *hold) {
	s, t := k.session, h.m.Term
	record, cover := k.record(h), k.cover(t)
	k.persist(func() error { return k.cfg.Cache.PutGrant(record, cover) }, func(err error) {
		if err != nil || k.session.id != s.id || h.m.Term.Lease != t.Lease {
			return // unclaimed, it goes back by itself
		}
		go k.claim(h, s, t)
	})
}

func (k *Keeper) claim(h *hold, s session, t ownership.Term) {
	sentAt := k.cfg.Clock.Boot()
	a, err := k.link.Do(s.ctx, k.command(s, Command{Claim: &LeaseRef{Scope: t.Scope, Lease: t.Lease, Epoch: uint64(t.Epoch)}}))
	k.post(func() {
		if k.session.id != s.id || h.m.Term.Lease != t.Lease {
			return
		}
		k.claimed(h, sentAt, a, err)
	})
}

func (k *Keeper) claimed(h *hold, sentAt boottime.Instant, a lease.Answer, err error) {
	switch {
	case err != nil:
		k.cfg.Log.Warn("claim", zap.Stringer("scope", h.m.Term.Scope), zap.String("node", k.cfg.Node), zap.Error(err))
		k.startFetch() // the set says what became of it
	case a.Code == lease.Claimed:
		h.claimAcked = true
		if a.Lease != nil && !a.Lease.MaxUntil.IsZero() && h.ownEnd == 0 {
			h.limited = true
			k.startFetch() // the set carries the lease's own limit as a duration
		}
		k.confirm(h, sentAt, a.Remaining)
		if a.Remaining <= 0 { // a replayed answer proves the claim, not the time
			k.nextBeat = k.cfg.Clock.Boot()
		}
	case a.Code == lease.Lost:
		k.refuseClaim(h, a)
	default:
		k.nextBeat = k.cfg.Clock.Boot()
		h.retryClaim(k)
	}
}

// refuseClaim: the grant was ended before it was claimed. Nothing ran under
// it; a caller that still waits asks again.
func (k *Keeper) refuseClaim(h *hold, a lease.Answer) {
	if h.req.Wait > 0 && h.m.Term.State == ownership.Acquiring {
		k.askAgain(h, k.cfg.Clock.Boot().Add(shortestPace))
		return
	}
	detail := "the grant ended before it was claimed: " + a.Detail
	k.step(h, ownership.Event{Kind: ownership.EvDropped, Now: k.cfg.Clock.Boot(), Detail: detail})
}

// retryClaim claims again a little later: the session had to be renewed first.
func (h *hold) retryClaim(k *Keeper) {
	if h.m.Term.State != ownership.Acquiring {
		return
	}
	t := k.cfg.Clock.NewTimer(shortestPace)
	ctx := k.session.ctx
	go func() {
		defer t.Stop()
		select {
		case <-t.C():
			k.post(func() {
				if h.m.Term.State == ownership.Acquiring {
					k.startClaim(h)
				}
			})
		case <-ctx.Done():
		}
	}()
}

// withTimeout is a context that ends after d of the injected clock.
func (k *Keeper) withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	t := k.cfg.Clock.NewTimer(d)
	go func() {
		defer t.Stop()
		select {
		case <-t.C():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
