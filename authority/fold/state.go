package fold

import (
	"slices"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// state is what the commands so far have made of the loaded records. It never
// changes what was loaded.
type state struct {
	loaded store.Loaded

	scopes   overlay[scope.ID, lease.Record]
	sessions overlay[string, lease.Session]
	leases   overlay[string, lease.Lease] // changed ones only, tombstones too
	active   map[scope.ID][]lease.Lease   // not ended, of changed scopes
	evidence overlay[string, lease.Evidence]
	left     map[scope.ID]leftBehind // of changed scopes
	audit    []lease.Audit
	moved    map[string]bool // sessions whose set somebody else changed
	taken    map[string]bool // ids of leases that were loaded
}

func newState(l store.Loaded) *state {
	s := &state{loaded: l, active: map[scope.ID][]lease.Lease{}, left: map[scope.ID]leftBehind{}, moved: map[string]bool{}, taken: map[string]bool{}}
	for _, held := range []map[scope.ID][]lease.Lease{l.Leases, l.Unsettled} {
		for _, leases := range held {
			for _, l := range leases {
				s.taken[l.ID] = true
			}
		}
	}
	return s
}

// leftBehind is what a scope's ended leases left.
type leftBehind struct {
	unsettled []lease.Lease
	evidence  []lease.Evidence
}

func (s *state) leftOf(id scope.ID) leftBehind {
	if l, ok := s.left[id]; ok {
		return l
	}
	return leftBehind{unsettled: s.loaded.Unsettled[id], evidence: s.loaded.Evidence[id]}
}

// overlay is an ordered map of changed rows.
type overlay[K comparable, V any] struct {
	rows  map[K]V
	order []K
}

func (o *overlay[K, V]) put(k K, v V) {
	if o.rows == nil {
		o.rows = map[K]V{}
	}
	if _, known := o.rows[k]; !known {
		o.order = append(o.order, k)
	}
	o.rows[k] = v
}

func (o *overlay[K, V]) all() []V {
	out := make([]V, 0, len(o.order))
	for _, k := range o.order {
		out = append(out, o.rows[k])
	}
	return out
}

func (s *state) session(id string) (lease.Session, bool) {
	if v, ok := s.sessions.rows[id]; ok {
		return v, true
	}
	v, ok := s.loaded.Sessions[id]
	return v, ok
}

func (s *state) record(of scope.Scope) lease.Record {
	id := of.ID()
	if r, ok := s.scopes.rows[id]; ok {
		return r
	}
	if r, ok := s.loaded.Scopes[id]; ok {
		return r
	}
	return lease.Record{Scope: of, State: lease.Open}
}

func (s *state) leasesOf(id scope.ID) []lease.Lease {
	if ls, ok := s.active[id]; ok {
		return ls
	}
	return s.loaded.Leases[id]
}

// knows reports whether a lease of that id was loaded or made here. Callers
// choose the ids: a grant under somebody else's would be written over his row.
func (s *state) knows(id string) bool {
	_, changed := s.leases.rows[id]
	return changed || s.taken[id]
}

// caseOf gathers what the action's rule may look at.
func (s *state) caseOf(a Action) lease.Case {
	c := lease.Case{Sessions: map[string]lease.Session{}}
	add := func(id string) {
		if v, ok := s.session(id); ok {
			c.Sessions[id] = v
		}
	}
	if a.Session != "" {
		add(a.Session)
	}
	if a.Node != "" {
		s.addOpenOf(a.Node, c.Sessions)
	}
	if !a.Scope.IsZero() {
		c.Scope = s.record(a.Scope)
		c.Leases = s.leasesOf(a.Scope.ID())
		left := s.leftOf(a.Scope.ID())
		c.Unsettled, c.Evidence = left.unsettled, left.evidence
		for _, l := range c.Leases {
			add(l.Session)
		}
	}
	return c
}

func (s *state) addOpenOf(node string, to map[string]lease.Session) {
	for id := range s.loaded.Sessions {
		if v, _ := s.session(id); v.Node == node && v.End == lease.SessionOpen {
			to[id] = v
		}
	}
	for id, v := range s.sessions.rows {
		if v.Node == node && v.End == lease.SessionOpen {
			to[id] = v
		}
	}
}

// apply takes over a change that was proved.
func (s *state) apply(a Action, c lease.Case, ch lease.Change) {
	if ch.Scope != nil {
		s.scopes.put(ch.Scope.Scope.ID(), *ch.Scope)
	}
	for _, l := range ch.Leases {
		s.leases.put(l.ID, l)
	}
	for _, e := range ch.Evidence {
		s.evidence.put(e.Effect.ID, e)
	}
	if len(ch.Leases) > 0 || len(ch.Evidence) > 0 {
		after := c.Apply(ch)
		s.active[a.Scope.ID()] = after.Leases
		s.left[a.Scope.ID()] = leftBehind{unsettled: after.Unsettled, evidence: after.Evidence}
	}
	for _, after := range ch.Sessions {
		before, known := s.session(after.ID)
		if known && before.SetVersion != after.SetVersion && after.ID != a.Session {
			s.moved[after.ID] = true
		}
		s.sessions.put(after.ID, after)
	}
	s.audit = append(s.audit, ch.Audit...)
}

// changes is one row per key.
func (s *state) changes() store.Changes {
	return store.Changes{
		Scopes: s.scopes.all(), Leases: s.leases.all(), Sessions: s.sessions.all(),
		Audit: slices.Clone(s.audit), Results: map[int][]byte{}, Evidence: s.evidence.all(),
	}
}
