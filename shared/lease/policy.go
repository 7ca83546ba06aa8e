package lease

import (
	"time"
)

// OnUncleanEnd says what becomes of a scope whose lease ended without proof
// that its effects stopped (DESIGN 3, ScopePolicy; I6).
type OnUncleanEnd string

// The three answers.
const (
	ReconcileAfter OnUncleanEnd = "reconcile" // block until somebody has looked
	FreeAfter      OnUncleanEnd = "free"      // grant on: the holder's effects are fenced or harmless
	CleanAfter     OnUncleanEnd = "clean"     // run the reset hook under a new lease
)

// Requirement says what kind of coordination a scope needs.
type Requirement string

// The requirements; this build decides exclusive scopes.
const (
	None       Requirement = "none"
	Optimistic Requirement = "optimistic"
	Exclusive  Requirement = "exclusive"
	Capacity   Requirement = "capacity"
)

// Policy is what holds for one scope: per kind, overridable per name pattern,
// in the authority's configuration.
type Policy struct {
	Version      uint64        `json:"version"` // of the configuration it came from
	Requirement  Requirement   `json:"requirement"`
	MinTTL       time.Duration `json:"min_ttl"`
	MaxTTL       time.Duration `json:"max_ttl"`
	LockDelay    time.Duration `json:"lock_delay"`    // waited after expiry; waived by a quiescence receipt
	ClaimTimeout time.Duration `json:"claim_timeout"` // an unclaimed grant goes back after it
	MaxHold      time.Duration `json:"max_hold"`      // zero: none
	OnUncleanEnd OnUncleanEnd  `json:"on_unclean_end"`
	Supersedable bool          `json:"supersedable"`
	// ConfirmEach: a sidecar sends an effect only after the authority has
	// recorded it under a live lease (DESIGN 2, "confirm: per-effect").
	ConfirmEach bool `json:"confirm_each"`
}
