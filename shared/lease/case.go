package lease

import (
	"time"

	"github.com/forgeyard/concurrency/shared/epoch"
)

// Case is one scope with everything that a decision on it may look at: its
// record, its leases that have not ended, and the sessions of their holders
// and of the requester, all loaded under the scope's and the sessions' locks.
type Case struct {
	Scope    Record
	Leases   []Lease
	Sessions map[string]Session

	// What it has left behind; loaded for decisions on reopening only.
	Unsettled []Lease
	Evidence  []Evidence // open and unknown effects of Unsettled
}

// Change is what a rule wants written. Records that it does not name stay as
// they are. Audit entries carry what people must be able to read later.
type Change struct {
	Scope    *Record
	Leases   []Lease
	Sessions []Session
	Audit    []Audit
	Evidence []Evidence
}

// Audit is one line of the audit log.
type Audit struct {
	At     time.Time   `json:"at"`
	Actor  string      `json:"actor"`
	Action string      `json:"action"`
	Scope  string      `json:"scope"`
	Lease  string      `json:"lease"`
	Node   string      `json:"node"`
	Epoch  epoch.Epoch `json:"epoch"`
	Reason string      `json:"reason"`
}

// Apply folds ch into c, as the store will hold it afterwards. It never
// changes c's slices or maps in place.
func (c Case) Apply(ch Change) Case {
	next := Case{Scope: c.Scope, Sessions: make(map[string]Session, len(c.Sessions)+len(ch.Sessions))}
	if ch.Scope != nil {
		next.Scope = *ch.Scope
	}
	for id, s := range c.Sessions {
		next.Sessions[id] = s
	}
	for _, s := range ch.Sessions {
		next.Sessions[s.ID] = s
	}
	byID := func(l Lease) string { return l.ID }
	next.Leases = keep(overlay(c.Leases, ch.Leases, byID), func(l Lease) bool { return l.State != Ended })
	next.Unsettled = keep(overlay(c.Unsettled, ch.Leases, byID), func(l Lease) bool { return l.Unsettled })
	next.Evidence = keep(overlay(c.Evidence, ch.Evidence, func(e Evidence) string { return e.Effect.ID }), Evidence.Unresolved)
	return next
}

// keep returns the rows that want holds for.
func keep[T any](rows []T, want func(T) bool) []T {
	var out []T
	for _, v := range rows {
		if want(v) {
			out = append(out, v)
		}
	}
	return out
}

// merge returns ch with later changes laid over it, one row per key.
func (ch Change) merge(later Change) Change {
	out := Change{
		Scope:    ch.Scope,
		Leases:   overlay(ch.Leases, later.Leases, func(l Lease) string { return l.ID }),
		Sessions: overlay(ch.Sessions, later.Sessions, func(s Session) string { return s.ID }),
		Audit:    append(append([]Audit{}, ch.Audit...), later.Audit...),
		Evidence: overlay(ch.Evidence, later.Evidence, func(e Evidence) string { return e.Effect.ID }),
	}
	if later.Scope != nil {
		out.Scope = later.Scope
	}
	return out
}

// overlay lists the later rows first, then those of before that they leave.
func overlay[T any](before, later []T, key func(T) string) []T {
	out := append([]T{}, later...)
	overwritten := make(map[string]bool, len(later))
	for _, v := range later {
		overwritten[key(v)] = true
	}
	for _, v := range before {
		if !overwritten[key(v)] {
			out = append(out, v)
		}
	}
	return out
}
