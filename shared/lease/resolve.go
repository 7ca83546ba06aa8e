package lease

import (
	"fmt"
	"strings"

	"github.com/forgeyard/concurrency/shared/effect"
)

// Resolution says what became of one effect.
type Resolution struct {
	Effect  string
	Outcome effect.State // succeeded or failed
	Seen    string       // what was seen, where
}

// ResolveRequest is what a reconciler found. Ref names his lease; a person
// gives Actor instead, since he has no session.
type ResolveRequest struct {
	Ref
	Actor       string
	Resolutions []Resolution
	Reopen      bool
	Seen        string // with Reopen: what was seen of the whole; evidence may be incomplete
}

// Resolve records observations, and reopens the scope when the reconciler says
// so and no reported effect is left (DESIGN 5.9; I6). Nothing is recorded
// unless everything of the request can be. Reopening ends a person's lease;
// a controller releases its own.
func Resolve(f Facts, p Policy, c Case, r ResolveRequest) (Change, Answer) {
	ch := f.Settle(p, c)
	c = c.Apply(ch)
	l, by, refused := f.resolver(c, r)
	if refused != nil {
		return ch, *refused
	}
	if c.Scope.State == Open {
		return ch, Answer{Code: AlreadyEnded, Lease: &l, Epoch: c.Scope.Epoch, Detail: "the scope is open already"}
	}
	found, refused := f.observed(c, r, by)
	if refused != nil {
		return ch, *refused
	}
	ch = ch.merge(found)
	c = c.Apply(found)
	if !r.Reopen {
		return ch, Answer{Code: Done, Lease: &l, Epoch: c.Scope.Epoch, Detail: fmt.Sprintf("%d effects are left to resolve", len(c.Evidence))}
	}
	if refused := mayReopen(c, r); refused != nil {
		return Change{}, *refused
	}
	opened := f.unlock(c, by, "scope-reopened", r.Seen)
	ch = ch.merge(opened)
	if l.byPerson() {
		ch = ch.merge(f.end(p, c.Apply(opened), l, Session{}, Released, ending{by: by, detail: "reopened", clean: true}))
		l.State = Ended
	}
	return ch, Answer{Code: Done, Lease: &l, Epoch: c.Scope.Epoch, Detail: "the scope is open"}
}

// resolver is the lease under which r speaks.
func (f Facts) resolver(c Case, r ResolveRequest) (Lease, string, *Answer) {
	if r.Actor != "" {
		if l, ok := c.reconciler(r.Actor); ok {
			return l, r.Actor, nil
		}
		return Lease{}, "", f.notReconciler(c)
	}
	s, refused := f.actor(c, r.Session, r.Nonce)
	if refused != nil {
		return Lease{}, "", refused
	}
	l, ok := c.find(r.Ref)
	if !ok || l.Purpose != Reconcile || l.State != Live {
		return Lease{}, "", f.notReconciler(c)
	}
	return l, fmt.Sprintf("%s %s on node %s", l.Holder.Kind, l.Holder.ID, s.Node), nil
}

func (f Facts) notReconciler(c Case) *Answer {
	a := reject(NotReconciler, "the scope must be claimed for reconciliation first")
	a.Epoch = c.Scope.Epoch
	if len(c.Leases) > 0 {
		a.Holder = f.summarize(c.Leases[0], c.Sessions[c.Leases[0].Session])
	}
	return &a
}

// observed is the evidence with what the reconciler saw, or what is wrong.
func (f Facts) observed(c Case, r ResolveRequest, by string) (Change, *Answer) {
	open := make(map[string]Evidence, len(c.Evidence))
	for _, e := range c.Evidence {
		open[e.Effect.ID] = e
	}
	var ch Change
	for _, said := range r.Resolutions {
		e, ok := open[said.Effect]
		if refused := said.malformed(ok); refused != nil {
			return Change{}, refused
		}
		delete(open, said.Effect)
		e.Observation = &Observation{Outcome: said.Outcome, Seen: said.Seen, By: by, At: f.stamp()}
		e.Effect.State, e.Effect.Reason, e.Effect.SettledAt = effect.Reconciled, string(said.Outcome)+": "+said.Seen, f.stamp()
		ch.Evidence = append(ch.Evidence, e)
		line := f.audit(by, "effect-resolved", Lease{ID: e.Effect.Lease, Scope: c.Scope.Scope, Node: e.Node, Epoch: e.Effect.Epoch},
			fmt.Sprintf("effect %s %s: %s", e.Effect.ID, said.Outcome, said.Seen))
		ch.Audit = append(ch.Audit, line)
	}
	return ch, nil
}

func (r Resolution) malformed(known bool) *Answer {
	var a Answer
	switch {
	case !known:
		a = reject(InvalidRequest, fmt.Sprintf("effect %q: not among the scope's open and unknown effects, or named twice", r.Effect))
	case r.Outcome != effect.Succeeded && r.Outcome != effect.Failed:
		a = reject(InvalidRequest, fmt.Sprintf("outcome %q of effect %s: must be %s or %s", r.Outcome, r.Effect, effect.Succeeded, effect.Failed))
	case strings.TrimSpace(r.Seen) == "":
		a = reject(InvalidRequest, fmt.Sprintf("seen of effect %s: must say what was seen", r.Effect))
	default:
		return nil
	}
	return &a
}

func mayReopen(c Case, r ResolveRequest) *Answer {
	var a Answer
	switch {
	case len(c.Evidence) > 0:
		ids := make([]string, len(c.Evidence))
		for i, e := range c.Evidence {
			ids[i] = e.Effect.ID
		}
		a = reject(Unresolved, fmt.Sprintf("%d effects are not resolved: %s", len(ids), strings.Join(ids, ", ")))
	case strings.TrimSpace(r.Seen) == "":
		a = reject(InvalidRequest, "seen: reopening must say what was seen, since reports may be incomplete")
	default:
		return nil
	}
	a.Epoch = c.Scope.Epoch
	return &a
}
