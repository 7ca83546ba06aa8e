package store

import (
	"context"
	"errors"
	"time"

	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// The errors that callers tell apart. Implementations translate their driver's
// errors into these, once.
var (
	// ErrUnavailable: nothing was done; trying again may help.
	ErrUnavailable = errors.New("store: unavailable")
	// ErrConflict: serialization failure, deadlock, lock timeout or a lock set
	// that kept growing; nothing was done.
	ErrConflict = errors.New("store: conflict")
	// ErrOutcomeUnknown: the commit was sent and not answered, or answered with
	// a warning; only the command ids tell.
	ErrOutcomeUnknown = errors.New("store: commit outcome unknown")
	// ErrLocked: another process has the embedded file.
	ErrLocked = errors.New("store: in use by another process")
	// ErrSchema: the schema is older or newer than this program.
	ErrSchema = errors.New("store: schema version")
)

// Command identifies one mutating request (DESIGN 3, Command).
type Command struct {
	ID        string // ULID
	Principal string // node or person
	Digest    [32]byte
}

// Stored is the result kept for a command.
type Stored struct {
	Digest [32]byte
	Result []byte
}

// Batch says what one transaction needs locked.
type Batch struct {
	Commands []Command     // (principal, id) pairwise distinct
	Scopes   []scope.Scope // created when missing
	Sessions []string      // by id
	Nodes    []string      // the session of the node that has not ended
	Evidence bool          // what Scopes' ended leases left behind is decided upon
}

// Loaded is what the transaction found, under its locks.
type Loaded struct {
	Now        time.Time // the store's clock, read last
	Generation epoch.Generation
	Identity   Identity
	// Replayed holds, by index into Batch.Commands, what is stored for ids that
	// were there before. decide must write nothing for those.
	Replayed map[int]Stored
	Scopes   map[scope.ID]lease.Record
	Leases   map[scope.ID][]lease.Lease // not ended
	Sessions map[string]lease.Session   // asked for, plus the holders' of Leases

	// With Batch.Evidence: leases that ended uncleanly, and their open and
	// unknown effects.
	Unsettled map[scope.ID][]lease.Lease
	Evidence  map[scope.ID][]lease.Evidence

	Switchover bool // a planned change of the database is under way (PrepareSwitchover)
}

// Changes is what decide wants written: at most one row per key.
type Changes struct {
	Scopes   []lease.Record
	Leases   []lease.Lease
	Sessions []lease.Session
	Audit    []lease.Audit
	Results  map[int][]byte // by index into Batch.Commands
	Evidence []lease.Evidence
}

// Identity names the history that a transaction saw: a new system or timeline
// means that it may have been cut (DESIGN 5.8, FC-98). On the embedded store
// System is the file's own identity and Timeline counts its incarnations.
type Identity struct {
	System   string
	Timeline string
}

// Pulse is the store's answer to one heartbeat.
type Pulse struct {
	Answer  lease.Answer
	Skipped bool // its row was locked; send it again with wait
}

// Beats is the answer to a batch of heartbeats.
type Beats struct {
	Now      time.Time
	Identity Identity
	Pulses   []Pulse // by index
}

// Set is the leases of one session in one snapshot (DESIGN 3, Session 5).
type Set struct {
	Now     time.Time
	Session lease.Session
	Version lease.SetVersion
	Leases  []lease.Lease // not ended
	Ended   []EndedLease  // of the ids asked for
	Owed    []lease.Lease // of the session's node, ended uncleanly and not settled
}

// EndedLease is a tombstone with the scope's present holder, so that a loser
// can be told by whom it was replaced (FC-27).
type EndedLease struct {
	Lease     lease.Lease
	Successor *lease.Lease
}

// LeaseFilter selects leases for people. Zero fields select everything.
type LeaseFilter struct {
	Tenant string
	Scope  scope.Scope
	Node   string
	Ended  bool // tombstones too
	Limit  int
}

// ScopeView is a scope with its record, as people see it.
type ScopeView struct {
	Record   lease.Record
	Leases   []lease.Lease
	Sessions map[string]lease.Session
}

// Incarnation is one running authority process.
type Incarnation struct {
	ID      string           // ULID of the process
	Witness epoch.Generation // highest verified generation known outside the store, or 0
	// Used is the generation that this process has worked with, or 0: a raise
	// goes above it, and a store with a lower one has lost some of its history.
	Used epoch.Generation
	Live time.Duration // another incarnation renewed within this is live

	// Recover says why the history is to be treated as cut although nothing
	// shows it; empty: it is not (Enlist only).
	Recover string
	// Forget decides what a cut does to everything that the store still has;
	// it runs in the transaction of the raise, which nothing else can run
	// beside. nil: nothing (Enlist only).
	Forget func(l Loaded, why string) (Changes, error)
}

// IncarnationKept is how long the row of an incarnation that is not renewed
// stays. A replica that was stalled, or cut off, for less than that finds its
// row again: a missing one is a witness of a cut (FC-07).
const IncarnationKept = 24 * time.Hour

// Standing is what the store says of an incarnation.
type Standing struct {
	Now        time.Time
	Generation epoch.Generation
	Identity   Identity
	Raised     bool // the generation rose: nobody else was live, or the history may have been cut
	Cut        bool // the history may have been cut since the store was last in use (Enlist only)
	Missing    bool // this incarnation's row is gone: the history was cut (Renew only)
	Switchover bool // the timeline changed as PrepareSwitchover had announced: nothing was forgotten (Enlist only)
}

// Store is the contract. Implementations are safe for concurrent use.
type Store interface {
	// Transact runs one transaction for a batch. decide is pure and may be
	// called again when the transaction is retried; its error rolls back and is
	// returned as it is. Errors: ErrUnavailable, ErrConflict, ErrOutcomeUnknown.
	Transact(ctx context.Context, b Batch, decide func(Loaded) (Changes, error)) error

	// Heartbeat renews sessions. Without wait, rows locked by others are
	// Skipped; with it the call waits for them, bounded by the lock timeout.
	Heartbeat(ctx context.Context, beats []lease.Beat, wait bool) (Beats, error)

	// Set reads a session's leases; known are lease ids that the sidecar
	// believes it holds. An unknown session has an empty Session.ID.
	Set(ctx context.Context, session string, known []string) (Set, error)

	// Due lists scopes that have something for Settle to do by the store's own
	// clock: sessions silent for longer than grace, grants unclaimed, drains
	// over, holds too long. It may list too many, never for ever too few.
	Due(ctx context.Context, grace time.Duration, limit int) ([]scope.Scope, error)

	// Enlist registers this process and raises the generation when no other
	// incarnation is live, when the identity differs from the stored one, or
	// when the witness is ahead. Renew keeps it alive.
	Enlist(ctx context.Context, inc Incarnation) (Standing, error)
	Renew(ctx context.Context, inc Incarnation) (Standing, error)

	// PrepareSwitchover stops grants for ten minutes and leaves a nonce: a new
	// timeline that holds it, once and within that time, keeps its leases
	// (DESIGN 5.8). An empty nonce takes it back. ErrUnsupported on a store
	// without timelines.
	PrepareSwitchover(ctx context.Context, nonce string) error

	Evidence

	// Leases, Scope, Closed, Sessions and Audit are reads for people. Closed
	// lists the scopes that are not open.
	Leases(ctx context.Context, f LeaseFilter) ([]lease.Lease, error)
	Scope(ctx context.Context, s scope.Scope) (ScopeView, error)
	Closed(ctx context.Context, limit int) ([]lease.Record, error)
	Sessions(ctx context.Context) ([]lease.Session, error)
	Audit(ctx context.Context, s scope.Scope, limit int) ([]lease.Audit, error)

	// Prune deletes command results, tombstones, ended sessions and audit rows
	// older than their retention, at most limit rows each.
	Prune(ctx context.Context, keep Retention, limit int) error

	Fleet

	// AuthorityID is the random identity minted when the schema was made.
	AuthorityID(ctx context.Context) (string, error)

	Close() error
}

// Retention says how long rows are kept.
type Retention struct {
	Commands time.Duration
	Ended    time.Duration
	Audit    time.Duration
}
