package lease

import (
	"time"

	"github.com/forgeyard/concurrency/shared/effect"
)

// Evidence is one effect as the authority knows it: what its sidecar reported
// last, and what somebody saw at the provider since. It may be incomplete: an
// effect that began after the last report of a node is not there, unless the
// lease is Accounted or Confirm (DESIGN 5.9).
type Evidence struct {
	Effect      effect.Effect `json:"effect"`
	Node        string        `json:"node"`
	ReportedAt  time.Time     `json:"reported_at"` // the store's clock
	Observation *Observation  `json:"observation,omitempty"`
}

// Observation is what somebody saw of an effect whose outcome nobody knew.
type Observation struct {
	Outcome effect.State `json:"outcome"` // succeeded or failed
	Seen    string       `json:"seen"`    // in words, or a reference to the provider
	By      string       `json:"by"`
	At      time.Time    `json:"at"` // the store's clock
}

// Unresolved reports whether nobody knows yet what became of the effect.
func (e Evidence) Unresolved() bool {
	return e.Effect.Open() || e.Effect.State == effect.Unknown
}

// reported makes evidence of what a node says about a lease of its own.
func (f Facts) reported(l Lease, effects []effect.Effect) []Evidence {
	var out []Evidence
	for _, e := range effects {
		e.Lease, e.Scope, e.Epoch = l.ID, l.Scope, l.Epoch
		out = append(out, Evidence{Effect: e, Node: l.Node, ReportedAt: f.stamp()})
	}
	return out
}

// Newer reports whether e may take the place of what is stored: an effect only
// ever moves from open to Unknown to an outcome, so a delayed report cannot
// bring back what is over (I7).
func (e Evidence) Newer(stored Evidence) bool {
	return certainty(e.Effect.State) > certainty(stored.Effect.State)
}

// certainty orders the states of an effect by what is known of it.
func certainty(s effect.State) int {
	switch s {
	case effect.Planned, effect.Started:
		return 0
	case effect.Unknown:
		return 1
	case effect.Succeeded, effect.Failed:
		return 2
	case effect.Reconciled:
		return 3
	}
	return -1
}

// Certainty is certainty for stores, which keep it beside the state: rows of a
// lower one are written over, others are not.
func Certainty(s effect.State) int { return certainty(s) }
