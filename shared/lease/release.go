package lease

import (
	"fmt"

	"github.com/forgeyard/concurrency/shared/epoch"
)

// Quiescence is the holder's word that its gate is closed, its connections are
// cut and nothing of the lease is in flight any more. Unknown effects are ones
// whose outcome it could not learn.
type Quiescence struct {
	Unknown int
}

// ReleaseRequest ends a lease by its holder.
type ReleaseRequest struct {
	Ref
	Why        EndReason // Released or CallerGone
	Quiescence Quiescence
}

// Release ends the lease that r names, on the holder's quiescence receipt,
// which waives the lock delay (DESIGN 4.6). It is accepted from an expired
// session too: Lost lets the sidecar settle and release (DESIGN 4.7). A repeat
// answers AlreadyEnded and changes nothing (FC-10).
func Release(f Facts, p Policy, c Case, r ReleaseRequest) (Change, Answer) {
	s, ok := c.Sessions[r.Session]
	if !ok {
		return Change{}, reject(SessionUnknown, "session "+r.Session)
	}
	if s.Nonce != r.Nonce {
		return Change{}, reject(WrongNonce, "another process of node "+s.Node+" resumed session "+r.Session)
	}
	l, ok := c.find(r.Ref)
	if !ok {
		return Change{}, Answer{
			Code: AlreadyEnded, Epoch: c.Scope.Epoch, Version: s.Version(f.Generation),
			Detail: fmt.Sprintf("lease %s with epoch %d was not held any more", r.Lease, r.Epoch),
		}
	}
	how := ending{by: "node " + s.Node, unknown: r.Quiescence.Unknown, clean: r.Quiescence.Unknown == 0}
	if how.unknown > 0 {
		how.detail = fmt.Sprintf("ended with %d unknown effects", how.unknown)
	}
	why := r.Why
	switch l.State {
	case Draining: // the first reason stands; this is the receipt it waited for
		why, how.by = l.EndReason, l.EndedBy
		how.detail = joinDetail(l.EndDetail, how.detail)
	case Granted:
		how.clean = true // nothing ran under it
	case Live, Ended:
	}
	ch := f.end(p, c, l, s, why, how)
	ended := ch.Leases[0]
	return ch, Answer{Code: Done, Lease: &ended, Epoch: c.Scope.Epoch, Version: ch.Sessions[0].Version(f.Generation)}
}

func joinDetail(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// ForceReleaseRequest is a person's decision to end a lease. Epoch must be the
// one that the person saw.
type ForceReleaseRequest struct {
	Epoch              epoch.Epoch
	Actor              string
	Reason             string
	AcceptUnreconciled bool // reopen although nobody looked at what the holder left
}

// ForceRelease ends the present lease early and raises the scope's epoch; a
// live holder drains first (FC-90). On a blocked scope without a lease it
// reopens it when AcceptUnreconciled is set. The wrong epoch is refused with
// the present holder; a repeat answers AlreadyEnded (FC-84).
func ForceRelease(f Facts, p Policy, c Case, r ForceReleaseRequest) (Change, Answer) {
	if r.AcceptUnreconciled {
		p.OnUncleanEnd = FreeAfter
	}
	ch := f.Settle(p, c)
	c = c.Apply(ch)
	if len(c.Leases) == 0 {
		reopened, a := f.reopen(c, r)
		return ch.merge(reopened), a
	}
	l := c.Leases[0]
	s := c.Sessions[l.Session]
	if l.Epoch != r.Epoch {
		return ch, f.conflict(c, l, s, r)
	}
	if l.State == Draining {
		return ch, Answer{Code: AlreadyEnded, Detail: "already ending: " + string(l.EndReason), Lease: &l, Epoch: c.Scope.Epoch, Holder: f.summarize(l, s)}
	}
	return f.forceHolder(p, c, ch, l, s, r)
}

func (f Facts) conflict(c Case, l Lease, s Session, r ForceReleaseRequest) Answer {
	return Answer{
		Code: Rejected, Reason: WrongEpoch, Epoch: c.Scope.Epoch, Holder: f.summarize(l, s),
		Detail: fmt.Sprintf("epoch %d was given, the present holder has %d", r.Epoch, l.Epoch),
	}
}

func (f Facts) forceHolder(p Policy, c Case, ch Change, l Lease, s Session, r ForceReleaseRequest) (Change, Answer) {
	e, err := epoch.Next(c.Scope.Epoch, f.Generation)
	if err != nil {
		return ch, reject(EpochExhausted, err.Error())
	}
	rec := c.Scope
	rec.Epoch = e
	ch = ch.merge(Change{Scope: &rec, Audit: []Audit{f.audit(r.Actor, "force-release", l, r.Reason)}})
	c = c.Apply(ch)
	if l.State == Granted { // nothing ran under it, and a late claim finds it ended
		ch = ch.merge(f.end(p, c, l, s, ForceReleased, ending{by: r.Actor, detail: r.Reason, clean: true}))
		return ch, Answer{Code: Done, Epoch: e, Holder: f.summarize(l, s)}
	}
	ch = ch.merge(f.drain(l, s, ForceReleased, r.Actor, r.Reason))
	drained := ch.Leases[len(ch.Leases)-1]
	return ch, Answer{
		Code: IsDraining, Lease: &drained, Epoch: e, Holder: f.summarize(drained, s),
		RetryAfter: f.earliest(p, drained, s),
	}
}

// reopen answers a force release that finds no lease.
func (f Facts) reopen(c Case, r ForceReleaseRequest) (Change, Answer) {
	if c.Scope.State == Open {
		return Change{}, Answer{Code: AlreadyEnded, Detail: "nobody holds it", Epoch: c.Scope.Epoch}
	}
	if r.Epoch != c.Scope.Epoch {
		return Change{}, Answer{
			Code: Rejected, Reason: WrongEpoch, Epoch: c.Scope.Epoch,
			Detail: fmt.Sprintf("epoch %d was given, the scope has %d", r.Epoch, c.Scope.Epoch),
		}
	}
	if !r.AcceptUnreconciled || c.Scope.State == Quarantined {
		return Change{}, reject(closedReason(c.Scope), c.Scope.Reason)
	}
	rec := c.Scope
	e, err := epoch.Next(rec.Epoch, f.Generation)
	if err != nil {
		return Change{}, reject(EpochExhausted, err.Error())
	}
	rec.Epoch, rec.State, rec.Reason = e, Open, ""
	audit := Audit{At: f.Now, Actor: r.Actor, Action: "reopen-unreconciled", Scope: rec.Scope.String(), Epoch: e, Reason: r.Reason}
	return Change{Scope: &rec, Audit: []Audit{audit}}, Answer{Code: Done, Epoch: e}
}

func closedReason(r Record) Reason {
	if r.State == Quarantined {
		return ScopeQuarantined
	}
	return ScopeBlocked
}
