package lease

import (
	"fmt"
	"time"

	"github.com/forgeyard/concurrency/shared/epoch"
)

// Ref names one lease exactly: what every request about a lease carries, so
// that a delayed one for an old term cannot touch a newer (FC-10).
type Ref struct {
	Session string
	Nonce   string
	Lease   string
	Epoch   epoch.Epoch
}

// find returns the lease that r names, if it has not ended.
func (c Case) find(r Ref) (Lease, bool) {
	for _, l := range c.Leases {
		if l.ID == r.Lease && l.Epoch == r.Epoch && l.Session == r.Session {
			return l, true
		}
	}
	return Lease{}, false
}

// Claim turns a grant into ownership; a repeat is answered alike. Remaining in
// the answer counts from the sending of the claim. A claim that comes after
// the claim timeout finds the lease ended: Lost with reason NoLease
// (DESIGN 3, Session 6; FC-15, FC-92).
func Claim(f Facts, p Policy, c Case, r Ref) (Change, Answer) {
	s, refused := f.actor(c, r.Session, r.Nonce)
	if refused != nil {
		return Change{}, *refused
	}
	ch := f.Settle(p, c)
	c = c.Apply(ch)
	l, ok := c.find(r)
	if !ok {
		return ch, lost(c, r)
	}
	s = c.Sessions[s.ID]
	switch l.State {
	case Granted:
		l.State = Live
		ch = ch.merge(Change{Leases: []Lease{l}})
	case Live:
	case Draining, Ended:
		return ch, Answer{Code: Lost, Reason: NoLease, Detail: string(l.EndReason), Lease: &l, Version: s.Version(f.Generation)}
	}
	return ch, Answer{
		Code: Claimed, Lease: &l, Epoch: l.Epoch,
		Remaining: f.remainingOf(l, s), Version: s.Version(f.Generation),
	}
}

// remainingOf is how long l may be trusted: the session's time or the lease's
// own limit, whichever ends first.
func (f Facts) remainingOf(l Lease, s Session) time.Duration {
	left := f.Remaining(s)
	if !l.MaxUntil.IsZero() {
		left = min(left, max(l.MaxUntil.Sub(f.Now), 0))
	}
	return left
}

// Renew moves a lease's own limit to extend from now, within the policy's
// longest hold. It never shortens it, so that a delayed repeat harms nothing,
// and gives none to a lease that has none. It never changes an epoch and never
// creates anything (FC-02, FC-03).
func Renew(f Facts, p Policy, c Case, r Ref, extend time.Duration) (Change, Answer) {
	s, refused := f.actor(c, r.Session, r.Nonce)
	if refused != nil {
		return Change{}, *refused
	}
	ch := f.Settle(p, c)
	c = c.Apply(ch)
	l, ok := c.find(r)
	if !ok || l.State != Live {
		return ch, lost(c, r)
	}
	s = c.Sessions[s.ID]
	if until := f.limit(p, l, extend); until.After(l.MaxUntil) && !l.MaxUntil.IsZero() {
		l.MaxUntil = until
		ch = ch.merge(Change{Leases: []Lease{l}})
	}
	return ch, Answer{
		Code: Renewed, Lease: &l, Epoch: l.Epoch,
		Remaining: f.remainingOf(l, s), Version: s.Version(f.Generation),
	}
}

// limit is extend from now, within the policy's longest hold.
func (f Facts) limit(p Policy, l Lease, extend time.Duration) time.Time {
	until := f.Now.Add(extend)
	if last := l.AcquiredAt.Add(p.MaxHold); p.MaxHold > 0 && until.After(last) {
		return last
	}
	return until
}

func lost(c Case, r Ref) Answer {
	return Answer{
		Code: Lost, Reason: NoLease, Epoch: c.Scope.Epoch,
		Detail: fmt.Sprintf("lease %s with epoch %d is not held by this session; the scope's epoch is %d", r.Lease, r.Epoch, c.Scope.Epoch),
	}
}
