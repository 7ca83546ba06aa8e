package lease

import (
	"fmt"
	"time"

	"github.com/forgeyard/concurrency/shared/epoch"
)

// AcquireRequest asks for one scope. LeaseID is a fresh ULID; it becomes the
// lease's identity when the request is granted.
type AcquireRequest struct {
	Session string
	Nonce   string
	LeaseID string
	Holder  Holder
	Purpose Purpose
}

// Acquire grants an exclusive scope or says why not. Whatever it counts as
// over on the strength of time it ends in the same Change (DESIGN 3, Session
// 3; FC-100). The grant is not ownership yet: its session must Claim it.
func Acquire(f Facts, p Policy, c Case, r AcquireRequest) (Change, Answer) {
	s, refused := f.actor(c, r.Session, r.Nonce)
	if refused != nil {
		return Change{}, *refused
	}
	if refused := admissible(p, s); refused != nil {
		return Change{}, *refused
	}
	ch := f.Settle(p, c)
	c = c.Apply(ch)
	if a, closed := f.scopeClosed(p, c, r.Purpose); closed {
		return ch, a
	}
	if a, wait := f.mustWait(p, c); wait {
		return ch, a
	}
	grant, a := f.grant(p, c, c.Sessions[s.ID], r)
	return ch.merge(grant), a
}

// admissible checks what the policy demands of any requester.
func admissible(p Policy, s Session) *Answer {
	if p.Requirement != Exclusive {
		a := reject(UnsupportedPolicy, fmt.Sprintf("requirement %q: this authority decides exclusive scopes", p.Requirement))
		return &a
	}
	if s.TTL < p.MinTTL || s.TTL > p.MaxTTL {
		a := reject(TTLOutOfBounds, fmt.Sprintf("session ttl %s: the scope allows %s to %s", s.TTL, p.MinTTL, p.MaxTTL))
		return &a
	}
	return nil
}

// actor returns the session that speaks, or the answer that refuses it.
func (f Facts) actor(c Case, id, nonce string) (Session, *Answer) {
	refuse := func(r Reason, detail string) (Session, *Answer) {
		a := reject(r, detail)
		return Session{}, &a
	}
	s, ok := c.Sessions[id]
	switch {
	case !ok:
		return refuse(SessionUnknown, "session "+id)
	case s.End != SessionOpen:
		return refuse(SessionEnded, fmt.Sprintf("session %s was %s", id, s.End))
	case s.Nonce != nonce:
		return refuse(WrongNonce, "another process of node "+s.Node+" resumed session "+id)
	case !f.Alive(s):
		return refuse(SessionExpired, "session "+id+" needs a heartbeat first")
	}
	return s, nil
}

// scopeClosed refuses what the stored state of a scope does not admit. A
// blocked one admits whoever comes to look, or to clean where the policy wants
// that; an open one has nothing to reconcile.
func (f Facts) scopeClosed(p Policy, c Case, want Purpose) (Answer, bool) {
	r := c.Scope
	a := Answer{Code: Rejected, Detail: r.Reason, Epoch: r.Epoch}
	if len(c.Leases) > 0 {
		a.Holder = f.summarize(c.Leases[0], c.Sessions[c.Leases[0].Session])
	}
	admitted := want == Reconcile || (want == Clean && p.OnUncleanEnd == CleanAfter)
	switch {
	case r.State == Quarantined:
		a.Reason = ScopeQuarantined
	case r.State == Blocked && !admitted:
		a.Reason = ScopeBlocked
	case r.State == Open && want == Reconcile:
		a.Reason, a.Detail = NotBlocked, "the scope is open: there is nothing to reconcile"
	default:
		return Answer{}, false
	}
	return a, true
}

// mustWait answers for a scope that admits the request, but not yet.
func (f Facts) mustWait(p Policy, c Case) (Answer, bool) {
	switch {
	case len(c.Leases) > 0:
		return f.busy(p, c), true
	case f.Switchover:
		return Answer{
			Code: Busy, Reason: Switchover, Epoch: c.Scope.Epoch, RetryAfter: f.MaxTTL,
			Detail: "the database is about to change hands: nothing is granted before",
		}, true
	}
	return f.mayBeHeld(p, c.Scope)
}

// mayBeHeld answers that a scope which looks free cannot be granted yet: after
// a cut of history the lease of a holder that trusts it may be what was lost
// (DESIGN 4.2, 5.8).
func (f Facts) mayBeHeld(p Policy, r Record) (Answer, bool) {
	left := f.pauseLeft(f.MaxTTL, f.delay(p))
	if !f.Pause.Whole || left == 0 {
		return Answer{}, false
	}
	return Answer{
		Code: Busy, Reason: HistoryCut, Epoch: r.Epoch, RetryAfter: left,
		Detail: "the store's history was cut: a holder that it forgot may still act for " + left.String(),
	}, true
}

func (f Facts) busy(p Policy, c Case) Answer {
	l := c.Leases[0]
	s := c.Sessions[l.Session]
	return Answer{
		Code: Busy, Holder: f.summarize(l, s), Epoch: c.Scope.Epoch,
		RetryAfter: f.earliest(p, l, s),
	}
}

// earliest is a hint, for pacing: after it time alone may free the scope. A
// live session usually outlives it.
func (f Facts) earliest(p Policy, l Lease, s Session) time.Duration {
	until, wait := s.ExpiresAt, f.delay(p)
	if l.State == Draining {
		until = l.DrainUntil
	}
	left := min(until.Add(wait).Sub(f.Now), f.span(s)+wait)
	return max(left, f.pauseLeft(s.TTL, wait), 0)
}

func (f Facts) grant(p Policy, c Case, s Session, r AcquireRequest) (Change, Answer) {
	e, err := epoch.Next(c.Scope.Epoch, f.Generation)
	if err != nil {
		return Change{}, reject(EpochExhausted, err.Error())
	}
	rec := c.Scope
	rec.Epoch = e
	s.SetVersion++
	l := Lease{
		ID: r.LeaseID, Scope: rec.Scope, Slots: []int{0}, Exclusive: true,
		Holder: r.Holder, Session: s.ID, Node: s.Node, Epoch: e, Purpose: r.Purpose,
		State: Granted, AcquiredAt: f.Now, ClaimBy: f.Now.Add(p.ClaimTimeout), Confirm: p.ConfirmEach,
	}
	if p.MaxHold > 0 {
		l.MaxUntil = f.Now.Add(p.MaxHold)
	}
	ch := Change{Scope: &rec, Leases: []Lease{l}, Sessions: []Session{s}}
	return ch, Answer{Code: Acquired, Lease: &l, Epoch: e, Version: s.Version(f.Generation)}
}
