package keeper

import (
	"context"
	"errors"
	"time"

	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/sidecar/cache"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// Binding is what a hold is bound to.
type Binding = cache.Binding

// Request asks for a hold.
type Request struct {
	Scope     scope.Scope
	Holder    lease.Holder
	Purpose   lease.Purpose // empty: lease.Work
	Wait      time.Duration // 0: answer at once when busy
	CommandID string        // ULID; a repeat attaches to the same hold
	UID       uint32        // of the caller
	Binding   Binding
}

// RefusedError says that a request ended without ownership; the term has the
// reason, the detail and, when the scope is held, the holder.
type RefusedError struct{ Term ownership.Term }

// Error implements error.
func (e *RefusedError) Error() string {
	return "keeper: " + e.Term.Scope.String() + ": " + string(e.Term.Reason) + ": " + e.Term.Detail
}

// Errors that callers tell apart.
var (
	ErrNoHold      = errors.New("keeper: no such hold")
	ErrUnreachable = errors.New("keeper: authority unreachable")
	ErrStopped     = errors.New("keeper: stopped")
)

// Status is what the keeper knows of its session.
type Status struct {
	Session      string
	State        string // registering, confirmed, unconfirmed
	Detail       string
	ConfirmedAgo time.Duration // negative: never
	Version      lease.SetVersion
}

// Set is the answer to a fetch of the session's leases.
type Set struct {
	Refused   lease.Reason
	Detail    string // of the refusal
	Version   lease.SetVersion
	Remaining time.Duration
	Leases    []SetLease
	Ended     []Ended
	Owed      []lease.Lease // of this node, ended uncleanly and not settled
}

// SetLease is one lease with the remainder of its own limit; negative: none.
type SetLease struct {
	lease.Lease
	OwnRemaining time.Duration
}

// Ended is a tombstone with who holds the scope now.
type Ended struct {
	Lease     lease.Lease
	Successor *lease.Summary
}

// Command is one mutating request to the authority; with no action it closes
// the session.
type Command struct {
	ID      string
	Session string
	Nonce   string
	Acquire *AcquireCommand
	Claim   *LeaseRef
	Release *ReleaseCommand
	Account *AccountCommand
	Resolve *ResolveCommand
}

// AcquireCommand asks for a scope.
type AcquireCommand struct {
	Scope   scope.Scope
	Holder  lease.Holder
	Purpose lease.Purpose
	Lease   string
}

// LeaseRef names one lease.
type LeaseRef struct {
	Scope scope.Scope
	Lease string
	Epoch uint64
}

// ReleaseCommand is a release with its quiescence receipt.
type ReleaseCommand struct {
	LeaseRef
	Why lease.EndReason
	lease.Quiescence
}

// AccountCommand says what an ended lease of this node left behind.
type AccountCommand struct {
	LeaseRef
	lease.Quiescence
}

// ResolveCommand is what a controller found under its lease to reconcile.
type ResolveCommand struct {
	LeaseRef
	Finding
}

// Finding is what a reconciler saw.
type Finding struct {
	Resolutions []lease.Resolution
	Reopen      bool
	Seen        string // of the whole, with Reopen
}

// Evidence is what the authority knows of what a scope's former holders left
// behind.
type Evidence struct {
	Record    lease.Record
	Holder    *lease.Lease // who has it now, the reconciler for example
	Unsettled []lease.Lease
	Effects   []lease.Evidence // open and unknown ones first
	Complete  bool             // every node has told all that it left
}

// Beat is a heartbeat with what changed among the effects of this node.
type Beat struct {
	lease.Beat
	Effects []effect.Effect
}

// BeatAnswer is the answer to it.
type BeatAnswer struct {
	lease.Answer
	Taken bool // the effects need not be sent again
}

// Confirmation asks whether one effect may be sent.
type Confirmation struct {
	Session string
	Nonce   string
	Lease   LeaseRef
	Effect  effect.Effect
}

// Link is the uplink. Every call is one attempt that ends with its context;
// errors mean that nothing is known.
type Link interface {
	Heartbeat(ctx context.Context, b Beat) (BeatAnswer, error)
	FetchSet(ctx context.Context, session, nonce string, known []string) (Set, error)
	// Do sends a command again with the same id on every new stream until it is
	// answered. A *MalformedError is final.
	Do(ctx context.Context, c Command) (lease.Answer, error)
	// Confirm asks once: without an answer nothing may be sent.
	Confirm(ctx context.Context, c Confirmation) (lease.Answer, error)
	// Evidence asks once what is known of what a scope's former holders left.
	Evidence(ctx context.Context, scope string) (Evidence, error)
	// Reregister ends the present stream, so that the next one registers anew.
	Reregister()
}

// MalformedError says that the authority could not make sense of a request.
type MalformedError struct{ Detail string }

// Error implements error.
func (e *MalformedError) Error() string { return "authority: " + e.Detail }

// Gate is what the keeper closes.
type Gate interface {
	Publish(*ownership.View)
	Cut(ownership.Key)
	Idle(ownership.Key) <-chan struct{}
	Forget(ownership.Key)
}

// Effects is the journal as the keeper needs it.
type Effects interface {
	// WaitSettled returns when no effect of the lease is open, or with ctx.
	WaitSettled(ctx context.Context, lease string) error
	// Counts returns the open and the unknown effects of the lease.
	Counts(lease string) (open, unknown int)
	// Left lists them, and settled ones that the authority may believe open.
	Left(lease string, limit int) []effect.Effect
	// Changes are due to be reported until they are acknowledged.
	Changes(limit int) []effect.Effect
	Acknowledge(sent []effect.Effect)
	// Told says that the authority was told of an effect outside Changes.
	Told(id string)
	// Reconcile settles an unknown effect by what somebody saw of it.
	Reconcile(id string, outcome effect.State, seen string)
	// Retell makes the settled effects of these leases due again.
	Retell(leases []string)
	// ID names the file: only under the same ID does it know every effect of a
	// lease.
	ID() string
	// Before reports whether the file is older than its ID.
	Before() bool
}

// Registration is what the uplink sends on a new stream.
type Registration struct {
	Nonce       string
	BootID      string
	LockFile    lease.LockFile
	TTL         time.Duration
	Resume      string
	ResumeNonce string
	Receipts    []cache.Receipt
}

// Registered is the authority's answer to it.
type Registered struct {
	Session     string
	Resumed     bool
	AuthorityID string
	LockDelay   time.Duration
	SentAt      boottime.Instant
}
