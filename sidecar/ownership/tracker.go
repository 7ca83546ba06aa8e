package ownership

import "github.com/forgeyard/concurrency/shared/lease"

// Tracker is what a sidecar has applied of its session's set of leases. It
// decides what an answer may do (DESIGN 3, Session 4-6).
type Tracker struct {
	Applied lease.SetVersion // the set whose gates are closed and connections cut
}

// Hint is what to do with an answer that names a set version.
type Hint string

// The verdicts on a hint.
const (
	Ignore Hint = "ignore" // older than, or as old as, what was applied
	Delta  Hint = "delta"  // exactly one newer: the answer may be applied
	Fetch  Hint = "fetch"  // something is missing
)

// Judge decides about a push, a command's answer or a replayed answer.
func (t Tracker) Judge(v lease.SetVersion) Hint {
	switch {
	case !t.Applied.Before(v):
		return Ignore
	case t.Applied.Next(v):
		return Delta
	default:
		return Fetch
	}
}

// Extends reports whether a heartbeat's answer, which names the version of the
// set at the authority, extends the leases that were applied. When it does not,
// the set must be fetched first (FC-91).
func (t Tracker) Extends(answer lease.SetVersion) bool { return !t.Applied.Before(answer) }

// Apply records a set or delta after its gates were closed and its connections
// cut. An older one changes nothing.
func (t Tracker) Apply(v lease.SetVersion) Tracker {
	if t.Applied.Before(v) {
		t.Applied = v
	}
	return t
}
