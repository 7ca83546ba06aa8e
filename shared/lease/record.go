package lease

import (
	"time"

	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/scope"
)

// State is where a lease stands. States persist and travel as their text.
type State string

// The states of DESIGN 3, Lease. Only Ended is final.
const (
	Granted  State = "granted"  // given, not yet claimed by its session; nothing runs under it
	Live     State = "live"     // claimed
	Draining State = "draining" // ended early while its session lives: still counts, nobody else is granted
	Ended    State = "ended"    // tombstone
)

// Purpose says what a lease is for.
type Purpose string

// The purposes of DESIGN 3, Lease.
const (
	Work      Purpose = "work"
	Reconcile Purpose = "reconcile"
	Clean     Purpose = "clean"
)

// EndReason says why a lease ended or drains.
type EndReason string

// The reasons. All of them are shown to people.
const (
	Released      EndReason = "released"       // by its holder, quiescent
	CallerGone    EndReason = "caller-gone"    // the holder's process or stream ended first (FC-12)
	Expired       EndReason = "expired"        // its session went silent
	Unclaimed     EndReason = "unclaimed"      // granted, never claimed in time
	ForceReleased EndReason = "force-released" // by a person, with a reason
	// ForcedUnreconciled is ForceReleased by a person who also accepts, on the
	// record, what the holder may have left behind: it closes no scope.
	ForcedUnreconciled EndReason = "force-released-unreconciled"
	Revoked            EndReason = "revoked" // by the authority
	Superseded         EndReason = "superseded"
	HandedOff          EndReason = "handed-off"
	MaxHold            EndReason = "max-hold"    // longer than the policy allows
	HistoryWasCut      EndReason = "history-cut" // the store forgot some of its history (DESIGN 5.8)
	DoublyOwned        EndReason = "doubly-owned"
)

// Authority is the actor of what the authority does by itself, in EndedBy and
// in the audit log.
const Authority = "authority"

// HolderKind says what sort of thing holds a lease.
type HolderKind string

// The holder kinds of DESIGN 3, Lease.
const (
	HolderRun                 HolderKind = "run"
	HolderJobAttempt          HolderKind = "job-attempt"
	HolderController          HolderKind = "controller"
	HolderDeployment          HolderKind = "deployment"
	HolderRelease             HolderKind = "release"
	HolderInfrastructureApply HolderKind = "infrastructure-apply"
	HolderQueueSubmission     HolderKind = "queue-submission"
	// HolderPerson is somebody who reconciles a scope by hand. Such a lease has
	// no session: no sidecar acts under it, so time alone ends it, cleanly.
	HolderPerson HolderKind = "person"
)

// Holder is who holds a lease, in the words of the platform.
type Holder struct {
	Kind HolderKind `json:"kind"`
	ID   string     `json:"id"`
}

// SetVersion orders the sets of leases of one session: (generation, version),
// compared in that order (DESIGN 3, Session 4).
type SetVersion struct {
	Generation epoch.Generation `json:"generation"`
	Version    uint64           `json:"version"`
}

// Before reports whether v is older than o.
func (v SetVersion) Before(o SetVersion) bool {
	if v.Generation != o.Generation {
		return v.Generation < o.Generation
	}
	return v.Version < o.Version
}

// Next reports whether o is exactly one newer than v: the only hint that may
// be applied as a delta (DESIGN 3, Session 5).
func (v SetVersion) Next(o SetVersion) bool {
	return v.Generation == o.Generation && v.Version+1 == o.Version
}

// Lease is one grant of one scope to one session. IDs are ULIDs.
type Lease struct {
	ID         string      `json:"id"`
	Scope      scope.Scope `json:"scope"`
	Slots      []int       `json:"slots"` // exclusive scopes have slot 0
	Exclusive  bool        `json:"exclusive"`
	Holder     Holder      `json:"holder"`
	Session    string      `json:"session"`
	Node       string      `json:"node"`
	Epoch      epoch.Epoch `json:"epoch"`
	Purpose    Purpose     `json:"purpose"`
	State      State       `json:"state"`
	AcquiredAt time.Time   `json:"acquired_at"`
	ClaimBy    time.Time   `json:"claim_by"`  // meaningful while Granted
	MaxUntil   time.Time   `json:"max_until"` // zero: no limit of its own

	// Why and until when it drains; kept when it has ended.
	DrainUntil   time.Time  `json:"drain_until"`
	DrainVersion SetVersion `json:"drain_version"`

	EndedAt   time.Time `json:"ended_at"`
	EndReason EndReason `json:"end_reason"`
	EndedBy   string    `json:"ended_by"`   // person or component
	EndDetail string    `json:"end_detail"` // a person's reason, or "ended with 2 unknown effects"
	Unknown   int       `json:"unknown"`    // effects whose outcome nobody knows
	// Unsettled: it ended uncleanly and nobody has said yet what it left behind.
	// Its scope stays blocked for as long (I6).
	Unsettled bool `json:"unsettled"`
	// Accounted: its node has told what it left; the evidence is complete.
	Accounted bool `json:"accounted"`
	Confirm   bool `json:"confirm"` // every effect is confirmed by the authority before it is sent
}

// ScopeState is what is stored of a scope; Free, Owned and Draining are
// derived from its leases so that they cannot disagree (DESIGN 3, Scope 3).
type ScopeState string

// The stored scope states.
const (
	Open        ScopeState = "open"
	Blocked     ScopeState = "blocked-for-reconciliation"
	Quarantined ScopeState = "quarantined"
)

// Record is the row of a scope. It is never deleted (Epoch 2).
type Record struct {
	Scope  scope.Scope `json:"scope"`
	Epoch  epoch.Epoch `json:"epoch"` // the highest ever issued
	State  ScopeState  `json:"state"`
	Reason string      `json:"reason"` // why it is not open
	// Forgotten: its history was cut or is contradictory, so holders that no
	// record names may have acted. Only somebody who looked can reopen it.
	Forgotten bool `json:"forgotten"`
}

// LockFile is the identity of the file whose flock proves that the former
// process of a node is dead (DESIGN 3, Session 8).
type LockFile struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

// SessionEnd says why a session row was ended.
type SessionEnd string

// The ends of a session.
const (
	SessionOpen     SessionEnd = ""
	SessionClosed   SessionEnd = "closed"   // by its own process, every gate closed: silent at once
	SessionReplaced SessionEnd = "replaced" // its node registered anew after its time had passed
	SessionRevoked  SessionEnd = "revoked"
)

// Session is the liveness record of one sidecar process.
type Session struct {
	ID         string        `json:"id"`
	Node       string        `json:"node"`
	Tenants    []string      `json:"tenants"`
	Nonce      string        `json:"nonce"` // new in every process
	BootID     string        `json:"boot_id"`
	LockFile   LockFile      `json:"lock_file"`
	TTL        time.Duration `json:"ttl"`
	Registered time.Time     `json:"registered_at"`
	ExpiresAt  time.Time     `json:"expires_at"`
	SetVersion uint64        `json:"set_version"`
	Applied    SetVersion    `json:"applied"` // gates closed and connections cut up to here
	EndedAt    time.Time     `json:"ended_at"`
	End        SessionEnd    `json:"end"`
}

// Version is the present set version of s under generation g.
func (s Session) Version(g epoch.Generation) SetVersion {
	return SetVersion{Generation: g, Version: s.SetVersion}
}
