package ownership

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync/atomic"

	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// State is where a hold stands, in the words that people see.
type State string

// The states of DESIGN 6.1. Lost is final for the hold.
const (
	Unowned     State = "unowned"
	Acquiring   State = "acquiring"
	Waiting     State = "waiting"
	Owned       State = "owned"
	Uncertain   State = "ownership-uncertain"
	Reconciling State = "reconciling"
	Releasing   State = "releasing"
	Lost        State = "lost"
)

// Reason says why a hold is Uncertain or Lost.
type Reason string

// The typed reasons of DESIGN 6.1 (FC-27).
const (
	NoReason             Reason = ""
	Expired              Reason = "expired"
	Superseded           Reason = "superseded"
	Revoked              Reason = "revoked"
	AuthorityUnreachable Reason = "authority-unreachable"
	ClockEvent           Reason = "clock-event"
	CacheDamaged         Reason = "cache-damaged"
	Restarted            Reason = "restarted"
	CallerGone           Reason = "caller-gone"
	Refused              Reason = "refused"
	Blocked              Reason = "blocked" // the scope waits for reconciliation, or is quarantined
	WaitTimeout          Reason = "wait-timeout"
	ReleasedByCaller     Reason = "released"
)

// Key is the secret of a hold: 128 bits that name it in base URLs. It is never
// logged; String redacts it.
type Key [16]byte

// ErrKey says that a text is not a hold key. It does not repeat the text.
var ErrKey = errors.New("ownership: hold key: must be 32 hexadecimal digits")

// NewKey draws a key.
func NewKey() Key {
	var k Key
	rand.Read(k[:]) // never fails (Go 1.24)
	return k
}

// ParseKey reads Secret's form.
func ParseKey(text string) (Key, error) {
	var k Key
	if len(text) != 2*len(k) {
		return Key{}, ErrKey
	}
	if _, err := hex.Decode(k[:], []byte(text)); err != nil {
		return Key{}, ErrKey
	}
	return k, nil
}

// Secret is the form that travels to the holder alone.
func (k Key) Secret() string { return hex.EncodeToString(k[:]) }

// String redacts.
func (k Key) String() string { return "hold-key:redacted" }

// Term is one hold at one moment: immutable. Instants are boottime; zero means
// passed.
type Term struct {
	Key    Key
	Scope  scope.Scope
	Holder lease.Holder
	// Purpose: work, or to reconcile what others left behind.
	Purpose lease.Purpose
	Lease   string
	Epoch   epoch.Epoch
	State   State
	Reason  Reason
	Detail  string // for people
	// Confirm: the authority is asked before each effect (policy confirm: per-effect).
	Confirm bool
	// Settling: no effect starts any more although the scope is owned; its holder
	// brings a cancelled operation to its end.
	Settling bool

	UncertainAt boottime.Instant // no new effect starts from here on
	KillAt      boottime.Instant // TERM to supervised groups
	Deadline    boottime.Instant // everything is cut

	Successor *lease.Summary // who has it instead, when known
}

// Entry is a hold in a View: its term and the count of what is in flight under
// it. The count outlives the terms: every View of one hold carries the same.
type Entry struct {
	Term     Term
	InFlight *atomic.Int64
}

// View is every hold of this sidecar at one moment: immutable once published,
// so that readers take no lock and do no I/O (DESIGN 6.2).
type View struct {
	Holds map[Key]Entry
}
