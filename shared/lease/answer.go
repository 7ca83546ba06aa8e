package lease

import (
	"time"

	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/scope"
)

// Code is what became of a request.
type Code string

// The codes. A refusal is an answer, not an error: it is stored under the
// command id and replayed like any other.
const (
	Acquired     Code = "acquired"
	Busy         Code = "busy"
	Rejected     Code = "rejected"
	Claimed      Code = "claimed"
	Renewed      Code = "renewed"
	Done         Code = "done"          // released, closed, swept, force-released
	IsDraining   Code = "draining"      // ended early, waits for the holder's silence
	AlreadyEnded Code = "already-ended" // a repeat; nothing changed (FC-10, FC-84)
	Lost         Code = "lost"          // the lease named is not the holder's any more
	Registered   Code = "registered"
	Resumed      Code = "resumed"
	Wait         Code = "wait" // the node's former session has not run out; RetryAfter says when
)

// Reason refines Rejected and Lost in a word that programs can match.
type Reason string

// The reasons.
const (
	NoReason          Reason = ""
	SessionUnknown    Reason = "session-unknown"
	SessionExpired    Reason = "session-expired"
	SessionEnded      Reason = "session-ended"
	WrongNonce        Reason = "wrong-nonce" // another process of this node took over
	TTLOutOfBounds    Reason = "ttl-out-of-bounds"
	ScopeBlocked      Reason = "blocked"
	ScopeQuarantined  Reason = "quarantined"
	UnsupportedPolicy Reason = "unsupported-requirement"
	EpochExhausted    Reason = "epoch-exhausted"
	WrongEpoch        Reason = "wrong-epoch"
	NoLease           Reason = "no-lease"
	NodeConflict      Reason = "node-conflict" // a second live instance of one node (FC-06)
	KeyConflict       Reason = "key-conflict"  // one command id, two digests
	CommandTooOld     Reason = "command-too-old"
	HistoryCut        Reason = "history-cut" // with Busy: what was lost may still be held
	InvalidRequest    Reason = "invalid-request"
	NotBlocked        Reason = "not-blocked"    // there is nothing to reconcile
	NotReconciler     Reason = "not-reconciler" // somebody else, or nobody, has the lease to reconcile
	Unresolved        Reason = "unresolved"     // effects that nobody has looked at
	Switchover        Reason = "switchover"     // with Busy: grants stop while the database changes hands
)

// Answer is the outcome of one request. Remaining is counted from the sending
// of the request that it answers; it is never stored, so that a replayed
// answer extends nothing (DESIGN 3, Session 5-6; FC-92).
type Answer struct {
	Code    Code          `json:"code"`
	Reason  Reason        `json:"reason,omitempty"`
	Detail  string        `json:"detail,omitempty"` // for people: names the values
	Lease   *Lease        `json:"lease,omitempty"`
	Session *Session      `json:"session,omitempty"`
	Version SetVersion    `json:"version"` // of the session's set after this
	Holder  *Summary      `json:"holder,omitempty"`
	Epoch   epoch.Epoch   `json:"epoch,omitempty"` // the scope's, after this
	Receipt epoch.Receipt `json:"receipt,omitempty"`

	Remaining  time.Duration `json:"-"`
	RetryAfter time.Duration `json:"retry_after,omitempty"` // when asking again may help
}

// Summary says who holds a scope and how alive he is: what a refused caller
// needs to decide what to do (FC-85).
type Summary struct {
	Scope     scope.Scope   `json:"scope"`
	Lease     string        `json:"lease"`
	Holder    Holder        `json:"holder"`
	Node      string        `json:"node"`
	Epoch     epoch.Epoch   `json:"epoch"`
	State     State         `json:"state"`
	Since     time.Time     `json:"since"`
	Alive     bool          `json:"alive"`
	ExpiresIn time.Duration `json:"expires_in"` // of its session; zero when not alive
}

func reject(r Reason, detail string) Answer {
	return Answer{Code: Rejected, Reason: r, Detail: detail}
}

func (f Facts) summarize(l Lease, s Session) *Summary {
	sum := &Summary{
		Scope: l.Scope, Lease: l.ID, Holder: l.Holder, Node: l.Node, Epoch: l.Epoch,
		State: l.State, Since: l.AcquiredAt, Alive: f.Alive(s), ExpiresIn: f.Remaining(s),
	}
	if l.byPerson() {
		sum.ExpiresIn = max(l.MaxUntil.Sub(f.Now), 0)
		sum.Alive = sum.ExpiresIn > 0
	}
	return sum
}
