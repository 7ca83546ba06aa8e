package lease

import (
	"fmt"

	"github.com/forgeyard/concurrency/shared/epoch"
)

// ForceReleaseRequest is a person's decision to end a lease. Epoch must be the
// one that the person saw.
type ForceReleaseRequest struct {
	Epoch              epoch.Epoch
	Actor              string
	Reason             string
	AcceptUnreconciled bool // the scope opens although nobody looked at what the holder left
}

// why is the reason under which a lease ends by this request.
func (r ForceReleaseRequest) why() EndReason {
	if r.AcceptUnreconciled {
		return ForcedUnreconciled
	}
	return ForceReleased
}

// ForceRelease ends the present lease early and raises the scope's epoch; a
// live holder drains first, and what the person accepts holds for the end of
// that drain (FC-90). On a blocked scope without a lease it reopens it when
// AcceptUnreconciled is set. An epoch that is not the present holder's is
// refused with that holder; a repeat answers AlreadyEnded (FC-84).
func ForceRelease(f Facts, p Policy, c Case, r ForceReleaseRequest) (Change, Answer) {
	ch := f.Settle(p, c)
	c = c.Apply(ch)
	if len(c.Leases) == 0 {
		reopened, a := f.withoutHolder(c, r)
		return ch.merge(reopened), a
	}
	l := c.Leases[0]
	s := c.Sessions[l.Session]
	if l.Epoch != r.Epoch {
		return ch, f.conflict(c, l, s, r)
	}
	var forced Change
	var a Answer
	switch {
	case l.State == Granted, l.byPerson():
		forced, a = f.forceGranted(p, c, l, s, r)
	case l.State == Draining:
		forced, a = f.forceDraining(p, c, l, s, r)
	default:
		forced, a = f.forceLive(p, c, l, s, r)
	}
	return ch.merge(forced), a
}

func (f Facts) conflict(c Case, l Lease, s Session, r ForceReleaseRequest) Answer {
	return Answer{
		Code: Rejected, Reason: WrongEpoch, Epoch: c.Scope.Epoch, Holder: f.summarize(l, s),
		Detail: fmt.Sprintf("epoch %d was given%s, the present holder has %d", r.Epoch, neverIssued(c.Scope, r.Epoch), l.Epoch),
	}
}

// neverIssued tells a mistyped epoch from one that somebody else held.
func neverIssued(rec Record, e epoch.Epoch) string {
	if e == 0 || e > rec.Epoch {
		return ", which was never issued"
	}
	return ""
}

// raise is the record with the epoch of nobody: whatever the ended holder still
// sends is below it at once.
func (f Facts) raise(rec Record, l Lease, r ForceReleaseRequest) (Change, Answer, bool) {
	e, err := epoch.Next(rec.Epoch, f.Generation)
	if err != nil {
		return Change{}, reject(EpochExhausted, err.Error()), false
	}
	rec.Epoch = e
	line := f.audit(r.Actor, string(r.why()), l, r.Reason)
	return Change{Scope: &rec, Audit: []Audit{line}}, Answer{Epoch: e}, true
}

// forceGranted ends a lease that nothing runs under: not claimed yet, or a
// person's. A late claim finds it so.
func (f Facts) forceGranted(p Policy, c Case, l Lease, s Session, r ForceReleaseRequest) (Change, Answer) {
	ch, a, ok := f.raise(c.Scope, l, r)
	if !ok {
		return ch, a
	}
	ch = ch.merge(f.end(p, c.Apply(ch), l, s, r.why(), ending{by: r.Actor, detail: r.Reason, clean: true}))
	a.Code, a.Holder = Done, f.summarize(l, s)
	return ch, a
}

func (f Facts) forceLive(p Policy, c Case, l Lease, s Session, r ForceReleaseRequest) (Change, Answer) {
	ch, a, ok := f.raise(c.Scope, l, r)
	if !ok {
		return ch, a
	}
	drained := f.drain(l, s, r.why(), r.Actor, r.Reason)
	return ch.merge(drained), f.draining(p, drained.Leases[0], s, a.Epoch)
}

// forceDraining answers for a lease that ends already. All that is left to
// decide is whether its scope opens unseen.
func (f Facts) forceDraining(p Policy, c Case, l Lease, s Session, r ForceReleaseRequest) (Change, Answer) {
	if !r.AcceptUnreconciled || l.EndReason == ForcedUnreconciled {
		return Change{}, Answer{
			Code: AlreadyEnded, Detail: "already ending: " + string(l.EndReason), Lease: &l, Epoch: c.Scope.Epoch,
			Holder: f.summarize(l, s), RetryAfter: f.earliest(p, l, s),
		}
	}
	ch, a, ok := f.raise(c.Scope, l, r)
	if !ok {
		return ch, a
	}
	l.EndReason, l.EndedBy, l.EndDetail = ForcedUnreconciled, r.Actor, joinDetail(l.EndDetail, r.Reason)
	return ch.merge(Change{Leases: []Lease{l}}), f.draining(p, l, s, a.Epoch)
}

func (f Facts) draining(p Policy, l Lease, s Session, e epoch.Epoch) Answer {
	return Answer{Code: IsDraining, Lease: &l, Epoch: e, Holder: f.summarize(l, s), RetryAfter: f.earliest(p, l, s)}
}

// withoutHolder answers a force release that finds no lease.
func (f Facts) withoutHolder(c Case, r ForceReleaseRequest) (Change, Answer) {
	rec := c.Scope
	wrong := Answer{
		Code: Rejected, Reason: WrongEpoch, Epoch: rec.Epoch,
		Detail: fmt.Sprintf("epoch %d was given%s, nobody holds the scope, its epoch is %d", r.Epoch, neverIssued(rec, r.Epoch), rec.Epoch),
	}
	reopening := rec.State != Open && r.AcceptUnreconciled
	switch {
	case r.Epoch == 0 || r.Epoch > rec.Epoch:
		return Change{}, wrong
	case rec.State == Open:
		return Change{}, Answer{Code: AlreadyEnded, Detail: "nobody holds it", Epoch: rec.Epoch}
	case r.Epoch < rec.Epoch && !reopening:
		return Change{}, Answer{Code: AlreadyEnded, Detail: "nobody holds it; it is " + string(rec.State) + ": " + rec.Reason, Epoch: rec.Epoch}
	case rec.State == Quarantined || !reopening:
		a := reject(closedReason(rec), rec.Reason)
		a.Epoch = rec.Epoch
		return Change{}, a
	case r.Epoch < rec.Epoch:
		return Change{}, wrong
	}
	return f.reopen(c, r)
}

// reopen opens a blocked scope on a person's word, under a new epoch.
func (f Facts) reopen(c Case, r ForceReleaseRequest) (Change, Answer) {
	e, err := epoch.Next(c.Scope.Epoch, f.Generation)
	if err != nil {
		return Change{}, reject(EpochExhausted, err.Error())
	}
	c.Scope.Epoch = e
	return f.unlock(c, r.Actor, "reopen-unreconciled", r.Reason), Answer{Code: Done, Epoch: e}
}

func closedReason(r Record) Reason {
	if r.State == Quarantined {
		return ScopeQuarantined
	}
	return ScopeBlocked
}
