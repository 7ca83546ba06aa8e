package ownership

import (
	"time"

	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
)

// Timing is the part of the session's budget that a hold needs.
type Timing struct {
	TTL            time.Duration
	UncertainAfter time.Duration
	KillGrace      time.Duration
	Margin         time.Duration
}

// TimingOf takes it from a budget.
func TimingOf(b lease.Budget) Timing {
	return Timing{TTL: b.TTL, UncertainAfter: b.UncertainAfter, KillGrace: b.KillGrace, Margin: b.Margin}
}

// Machine is one hold. It is a value: Step returns the next one.
type Machine struct {
	Term    Term
	Timing  Timing
	Claimed bool             // the authority acknowledged the claim
	notice  boottime.Instant // confirmations sent before this instant prove nothing
	// CallerLeft: the caller died; what remains is settling and releasing.
	CallerLeft bool
	cut        bool // Releasing: what had not settled by the hard deadline was cut
}

// EventKind names an event; it is the column of the transition table.
type EventKind string

// The events.
const (
	EvGranted    EventKind = "granted"     // an answer or a set names a lease for this hold
	EvBusy       EventKind = "busy"        // somebody else has the scope
	EvUndecided  EventKind = "undecided"   // the request came to nothing that ends it: ask again
	EvRetry      EventKind = "retry"       // the wait for the next attempt is over
	EvRefused    EventKind = "refused"     // the request ended without a grant
	EvConfirmed  EventKind = "confirmed"   // claim, heartbeat, set or renewal, with a duration
	EvTick       EventKind = "tick"        // time passed
	EvClock      EventKind = "clock-event" // the machine slept, a clock was stepped
	EvDropped    EventKind = "dropped"     // the authority says that the lease is not ours any more
	EvSettle     EventKind = "settle"      // the caller asks that no effect starts any more
	EvRelease    EventKind = "release"     // the caller asks
	EvCallerGone EventKind = "caller-gone" // the caller's stream or process ended
	EvReleased   EventKind = "released"    // the authority acknowledged the release
)

// Event is what happened. Only the fields of its kind count.
type Event struct {
	Kind      EventKind
	Now       boottime.Instant
	Lease     string           // EvGranted
	Epoch     epoch.Epoch      // EvGranted
	Confirm   bool             // EvGranted: the lease's effects are confirmed one by one
	SentAt    boottime.Instant // EvConfirmed: before the request that is answered was sent
	Remaining time.Duration    // EvConfirmed: of the session, or of the lease when shorter
	Reason    Reason           // EvRefused, EvDropped; of EvRelease and EvCallerGone when it is not the usual one
	Detail    string           // EvRefused, EvDropped, EvClock, EvRelease, EvCallerGone
	Successor *lease.Summary   // EvBusy, EvDropped, EvRefused
}

// Action is what the keeper must do after a step.
type Action string

// The actions.
const (
	DoAcquire Action = "acquire" // send the request again
	DoClaim   Action = "claim"
	DoCut     Action = "cut"     // end everything in flight, then settle
	DoRetire  Action = "retire"  // wait for quiescence, settle, send the release
	DoForget  Action = "forget"  // the hold has reached its end
	DoPublish Action = "publish" // the term changed
)

// Deadline is the next instant at which a Tick changes something; false when
// there is none.
func (m Machine) Deadline() (boottime.Instant, bool) {
	switch m.Term.State {
	case Owned:
		return m.Term.UncertainAt, true
	case Uncertain:
		return m.Term.Deadline, true
	case Releasing:
		return m.Term.Deadline, !m.cut && m.Term.Deadline != 0
	case Unowned, Acquiring, Waiting, Reconciling, Lost:
	}
	return 0, false
}

// Final reports whether no event changes the state any more.
func (m Machine) Final() bool { return m.Term.State == Lost || m.Term.State == Unowned }

// New returns a hold that is about to be asked for.
func New(t Term, timing Timing) Machine {
	t.State = Acquiring
	return Machine{Term: t, Timing: timing}
}

// Restore returns a hold of a former process of this node: Uncertain until the
// authority confirms it (DESIGN 6.3). Deadlines are those that were last
// durable.
func Restore(t Term, timing Timing, now boottime.Instant) Machine {
	t.State, t.Reason = Uncertain, Restarted
	t.UncertainAt = 0
	return Machine{Term: t, Timing: timing, Claimed: true, notice: now}
}

// confirm moves the deadlines of a claimed hold. remaining is what the
// authority still grants, counted from sentAt.
func (m Machine) confirm(sentAt boottime.Instant, remaining time.Duration) Machine {
	if remaining > m.Timing.TTL {
		remaining = m.Timing.TTL
	}
	hard := sentAt.Add(remaining - m.Timing.Margin)
	if hard > m.Term.Deadline {
		m.Term.Deadline = hard
		m.Term.KillAt = hard.Add(-m.Timing.KillGrace)
		m.Term.UncertainAt = sentAt.Add(remaining - m.Timing.TTL + m.Timing.UncertainAfter)
	}
	return m
}
