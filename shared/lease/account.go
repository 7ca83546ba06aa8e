package lease

import (
	"fmt"

	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/epoch"
)

// AccountRequest is the word of a node on a lease of its own that ended
// without its receipt: the gate was closed and nothing is in flight; this is
// what its journal knows. Session is the one that speaks now; it need not be
// the one that held the lease, only of the same node.
type AccountRequest struct {
	Session    string
	Nonce      string
	Lease      string
	Epoch      epoch.Epoch
	Quiescence Quiescence
}

// Account turns an unclean end into a clean one when nothing is Unknown any
// more, and reopens the scope when that was the last thing that kept it closed
// (DESIGN 5.9). With effects still Unknown it adds them to the evidence. A
// repeat answers AlreadyEnded. It never ends a lease: one that still counts is
// for Release.
func Account(f Facts, p Policy, c Case, r AccountRequest) (Change, Answer) {
	s, refused := f.actor(c, r.Session, r.Nonce)
	if refused != nil {
		return Change{}, *refused
	}
	if r.Quiescence.Unknown < 0 {
		return Change{}, reject(InvalidRequest, fmt.Sprintf("unknown effects %d: must not be negative", r.Quiescence.Unknown))
	}
	ch := f.Settle(p, c)
	c = c.Apply(ch)
	l, ok := c.unsettled(r.Lease, r.Epoch)
	if !ok || l.Node != s.Node {
		return ch, Answer{
			Code: AlreadyEnded, Epoch: c.Scope.Epoch,
			Detail: fmt.Sprintf("nothing is owed for lease %s with epoch %d of node %s", r.Lease, r.Epoch, s.Node),
		}
	}
	l.Accounted, l.Unknown = true, r.Quiescence.Unknown
	said := Change{Evidence: f.reported(l, r.Quiescence.Left)}
	action := "lease-accounted"
	if l.Unknown == 0 {
		l.Unsettled, action = false, "lease-settled"
		said.Evidence = append(said.Evidence, f.answered(c, l)...)
	}
	said.Leases = []Lease{l}
	said.Audit = []Audit{f.audit("node "+s.Node, action, l, fmt.Sprintf("%d effects unknown", l.Unknown))}
	ch = ch.merge(said)
	if reopened, ok := f.reopened(c.Apply(said), "node "+s.Node, "everything was settled by its node"); ok {
		ch = ch.merge(reopened)
	}
	return ch, Answer{Code: Done, Lease: &l, Epoch: c.Scope.Epoch}
}

// answered closes the evidence of a lease whose node says that every call had
// an answer: a report of theirs may have been lost.
func (f Facts) answered(c Case, l Lease) []Evidence {
	var out []Evidence
	for _, e := range c.Evidence {
		if e.Effect.Lease == l.ID && e.Unresolved() {
			e.Effect.State, e.Effect.Reason = effect.Reconciled, "settled by its node"
			e.Effect.SettledAt, e.ReportedAt = f.stamp(), f.stamp()
			out = append(out, e)
		}
	}
	return out
}

func (c Case) unsettled(id string, e epoch.Epoch) (Lease, bool) {
	for _, l := range c.Unsettled {
		if l.ID == id && l.Epoch == e {
			return l, true
		}
	}
	return Lease{}, false
}

// reopened opens a blocked scope that nothing keeps closed any more.
func (f Facts) reopened(c Case, by, why string) (Change, bool) {
	if c.Scope.State != Blocked || c.Scope.Forgotten || len(c.Unsettled) > 0 {
		return Change{}, false
	}
	return f.unlock(c, by, "scope-reopened", why), true
}

// unlock clears everything that keeps a scope closed.
func (f Facts) unlock(c Case, by, action, why string) Change {
	rec := c.Scope
	line := f.audit(by, action, Lease{Scope: rec.Scope, Epoch: rec.Epoch}, joinDetail(why, rec.Reason))
	rec.State, rec.Reason, rec.Forgotten = Open, "", false
	ch := Change{Scope: &rec, Audit: []Audit{line}}
	for _, l := range c.Unsettled {
		l.Unsettled = false
		ch.Leases = append(ch.Leases, l)
	}
	return ch
}
