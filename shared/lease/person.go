package lease

import (
	"fmt"
	"time"

	"github.com/forgeyard/concurrency/shared/epoch"
)

// The bounds of how long a person may keep a scope to reconcile it.
const (
	MinReconcileFor     = time.Minute
	MaxReconcileFor     = 8 * time.Hour
	DefaultReconcileFor = time.Hour
)

// ReconcileRequest is a person's claim of a scope that is not open.
type ReconcileRequest struct {
	Actor       string
	LeaseID     string // ULID, fresh
	Reason      string
	For         time.Duration // MinReconcileFor to MaxReconcileFor
	Quarantined bool          // the person may decide on a quarantined scope too
}

// ReconcileByPerson gives a person the lease to reconcile, with a new epoch:
// whatever a former holder still sends is older (DESIGN 5.9). It has no
// session: nothing passes a gate under it, and it ends by its own limit. A
// person who has it already gets it for longer.
func ReconcileByPerson(f Facts, p Policy, c Case, r ReconcileRequest) (Change, Answer) {
	if r.For < MinReconcileFor || r.For > MaxReconcileFor {
		return Change{}, reject(InvalidRequest, fmt.Sprintf("for %s: must be %s to %s", r.For, MinReconcileFor, MaxReconcileFor))
	}
	ch := f.Settle(p, c)
	c = c.Apply(ch)
	if l, ok := c.reconciler(r.Actor); ok {
		l.MaxUntil = f.Now.Add(r.For)
		return ch.merge(Change{Leases: []Lease{l}}), Answer{Code: Acquired, Lease: &l, Epoch: l.Epoch, Detail: "you have it already"}
	}
	open := c
	if c.Scope.State == Quarantined && r.Quarantined {
		open.Scope.State = Blocked // for the question whether it may be looked at
	}
	if a, closed := f.scopeClosed(p, open, Reconcile); closed {
		return ch, a
	}
	if a, wait := f.mustWait(p, c); wait {
		return ch, a
	}
	claimed, a := f.claimForPerson(c, r)
	return ch.merge(claimed), a
}

// claimForPerson is the grant; there is nobody to claim it later.
func (f Facts) claimForPerson(c Case, r ReconcileRequest) (Change, Answer) {
	e, err := epoch.Next(c.Scope.Epoch, f.Generation)
	if err != nil {
		return Change{}, reject(EpochExhausted, err.Error())
	}
	rec := c.Scope
	rec.Epoch = e
	l := Lease{
		ID: r.LeaseID, Scope: rec.Scope, Slots: []int{0}, Exclusive: true,
		Holder: Holder{Kind: HolderPerson, ID: r.Actor}, Epoch: e, Purpose: Reconcile,
		State: Live, AcquiredAt: f.Now, ClaimBy: f.Now, MaxUntil: f.Now.Add(r.For),
	}
	line := f.audit(r.Actor, "reconcile-claimed", l, r.Reason)
	return Change{Scope: &rec, Leases: []Lease{l}, Audit: []Audit{line}}, Answer{Code: Acquired, Lease: &l, Epoch: e}
}

func (l Lease) byPerson() bool { return l.Holder.Kind == HolderPerson }

// reconciler is the lease under which this person reconciles, if he does.
func (c Case) reconciler(actor string) (Lease, bool) {
	for _, l := range c.Leases {
		if l.byPerson() && l.Holder.ID == actor && l.Purpose == Reconcile {
			return l, true
		}
	}
	return Lease{}, false
}

// settlePerson ends a person's lease when its time is over.
func (f Facts) settlePerson(p Policy, c Case, l Lease) Change {
	if !f.overstayed(l, Session{}) {
		return Change{}
	}
	return f.end(p, c, l, Session{}, Expired, ending{by: Authority, detail: "the time to reconcile it is over", clean: true})
}
