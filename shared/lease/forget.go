package lease

import (
	"fmt"

	"github.com/forgeyard/concurrency/shared/epoch"
)

// Forget is what a cut of the store's history does to one scope (DESIGN 5.8):
// every lease from before becomes Draining, since its holder may be one that
// the lost history had replaced; and where the policy wants reconciliation the
// scope closes, since somebody that no record names may have acted. A scope
// that was never granted stays open: a node that held it brings the receipt
// (Testify). Facts.Generation is the raised one.
func (f Facts) Forget(p Policy, c Case, why string) Change {
	var ch Change
	for _, l := range c.Leases {
		now := c.Apply(ch)
		ch = ch.merge(f.evict(p, now, l, HistoryWasCut, why))
	}
	if p.OnUncleanEnd == FreeAfter || c.Scope.Epoch == 0 || c.Scope.Forgotten {
		return ch
	}
	return ch.merge(f.closeForgotten(c.Apply(ch), Blocked, "history-cut", why))
}

// evict ends a lease early whatever it is doing.
func (f Facts) evict(p Policy, c Case, l Lease, why EndReason, detail string) Change {
	switch {
	case l.State == Draining, l.State == Ended:
		return Change{}
	case l.byPerson():
		return f.end(p, c, l, Session{}, why, ending{by: Authority, detail: detail, clean: true})
	}
	return f.drain(l, c.Sessions[l.Session], why, Authority, detail)
}

// closeForgotten closes a scope until somebody has looked. A quarantined one
// stays so.
func (f Facts) closeForgotten(c Case, to ScopeState, action, why string) Change {
	rec := c.Scope
	if rec.State != Quarantined {
		rec.State = to
	}
	rec.Reason, rec.Forgotten = joinDetail(rec.Reason, why), true
	line := f.audit(Authority, action, Lease{Scope: rec.Scope, Epoch: rec.Epoch}, why)
	return Change{Scope: &rec, Audit: []Audit{line}}
}

// Witness is a verified receipt that a node brought along: the authority
// itself has granted this epoch to it (DESIGN 5.8; FC-108).
type Witness struct {
	Epoch epoch.Epoch
	Node  string
}

// Testify compares a witness with what the store knows of the scope. A grant
// that the store has forgotten closes the scope where the policy wants
// reconciliation, and its epoch is remembered. An epoch that two nodes were
// given is a contradiction: the scope goes to quarantine.
func (f Facts) Testify(p Policy, c Case, w Witness) Change {
	if why := c.contradicts(w); why != "" {
		return f.Quarantine(p, c, why)
	}
	if w.Epoch <= c.Scope.Epoch {
		return Change{}
	}
	rec := c.Scope
	rec.Epoch = w.Epoch
	why := fmt.Sprintf("node %s was granted epoch %d, which the store has forgotten", w.Node, w.Epoch)
	ch := Change{Scope: &rec, Audit: []Audit{f.audit(Authority, "grant-forgotten", Lease{Scope: rec.Scope, Node: w.Node, Epoch: w.Epoch}, why)}}
	if p.OnUncleanEnd == FreeAfter {
		return ch
	}
	return ch.merge(f.closeForgotten(c.Apply(ch), Blocked, "scope-blocked", why))
}

// contradicts says how a witness and a lease of another node exclude each other.
func (c Case) contradicts(w Witness) string {
	if c.Scope.State == Quarantined {
		return ""
	}
	for _, l := range c.Leases {
		if l.Epoch == w.Epoch && l.Node != w.Node {
			return fmt.Sprintf("epoch %d was granted to node %s and to node %s", w.Epoch, l.Node, w.Node)
		}
	}
	return ""
}
