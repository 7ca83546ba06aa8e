package ownership_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

var update = flag.Bool("update", false, "rewrite testdata/table.md")

const t0 = boottime.Instant(1000 * time.Second)

func at(d time.Duration) boottime.Instant { return t0.Add(d) }

func timing() ownership.Timing { return ownership.TimingOf(lease.DefaultBudget()) }

func run(m ownership.Machine, events ...ownership.Event) (ownership.Machine, []ownership.Action) {
	var all []ownership.Action
	for _, e := range events {
		var acts []ownership.Action
		m, acts = ownership.Step(m, e)
		all = append(all, acts...)
	}
	return m, all
}

func owned(t *testing.T) ownership.Machine {
	t.Helper()
	m, _ := run(ownership.New(ownership.Term{}, timing()),
		ownership.Event{Kind: ownership.EvGranted, Now: t0, Lease: "L", Epoch: 7},
		ownership.Event{Kind: ownership.EvConfirmed, Now: t0, SentAt: t0, Remaining: 15 * time.Second})
	require.Equal(t, ownership.Owned, m.Term.State)
	return m
}

func tick(d time.Duration) ownership.Event {
	return ownership.Event{Kind: ownership.EvTick, Now: at(d)}
}

func confirm(sent, now, remaining time.Duration) ownership.Event {
	return ownership.Event{Kind: ownership.EvConfirmed, SentAt: at(sent), Now: at(now), Remaining: remaining}
}

func TestDeadlinesCountFromTheSendingOfTheRequest(t *testing.T) {
	t.Parallel()
	m := owned(t)
	require.Equal(t, at(9*time.Second), m.Term.UncertainAt)
	require.Equal(t, at(14*time.Second), m.Term.Deadline)
	require.Equal(t, at(11*time.Second), m.Term.KillAt)
	m, _ = run(m, confirm(3*time.Second, 8*time.Second, 15*time.Second)) // a reply five seconds late
	require.Equal(t, at(17*time.Second), m.Term.Deadline)
	m, _ = run(m, confirm(1*time.Second, 8*time.Second, 15*time.Second)) // an older one, later still
	require.Equal(t, at(17*time.Second), m.Term.Deadline, "a deadline never moves back")
	m, _ = run(m, confirm(8*time.Second, 8*time.Second, time.Hour))
	require.Equal(t, at(22*time.Second), m.Term.Deadline, "no answer extends beyond a ttl")
}

func TestFC26_UncertainRecoversWithTheSameEpochBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	m, acts := run(owned(t), tick(9*time.Second))
	require.Equal(t, ownership.Uncertain, m.Term.State)
	require.Equal(t, ownership.AuthorityUnreachable, m.Term.Reason)
	require.NotContains(t, acts, ownership.DoCut, "Uncertain kills nothing")
	m, _ = run(m, confirm(13*time.Second, 13500*time.Millisecond, 15*time.Second))
	require.Equal(t, ownership.Owned, m.Term.State)
	require.EqualValues(t, 7, m.Term.Epoch)
	require.Equal(t, ownership.NoReason, m.Term.Reason)
}

func TestFC23_AConfirmationAfterTheDeadlineDoesNotRevive(t *testing.T) {
	t.Parallel()
	m, acts := run(owned(t), confirm(13*time.Second, 14*time.Second, 15*time.Second))
	require.Equal(t, ownership.Lost, m.Term.State)
	require.Contains(t, acts, ownership.DoCut)
	m, _ = run(m, confirm(15*time.Second, 15*time.Second, 15*time.Second))
	require.Equal(t, ownership.Lost, m.Term.State, "Lost is final")
}

func TestFC27_LossNamesItsReasonAndTheSuccessor(t *testing.T) {
	t.Parallel()
	next := &lease.Summary{Lease: "M", Epoch: 8}
	m, _ := run(owned(t), ownership.Event{Kind: ownership.EvDropped, Now: at(1), Reason: ownership.Revoked, Detail: "stuck, says ann", Successor: next})
	require.Equal(t, ownership.Lost, m.Term.State)
	require.Equal(t, ownership.Revoked, m.Term.Reason)
	require.Equal(t, "stuck, says ann", m.Term.Detail)
	require.Equal(t, next, m.Term.Successor)
	m, _ = run(owned(t), tick(9*time.Second), tick(14*time.Second))
	require.Equal(t, ownership.Expired, m.Term.Reason)
	require.Nil(t, m.Term.Successor)
}

func TestFC22_AClockEventDistrustsWhatWasConfirmedBefore(t *testing.T) {
	t.Parallel()
	m, _ := run(owned(t), ownership.Event{Kind: ownership.EvClock, Now: at(2 * time.Second), Detail: "the machine slept"})
	require.Equal(t, ownership.Uncertain, m.Term.State)
	require.Equal(t, ownership.ClockEvent, m.Term.Reason)
	m, _ = run(m, confirm(time.Second, 3*time.Second, 15*time.Second))
	require.Equal(t, ownership.Uncertain, m.Term.State, "sent before the event")
	m, _ = run(m, confirm(3*time.Second, 4*time.Second, 15*time.Second))
	require.Equal(t, ownership.Owned, m.Term.State)
}

// TestTheDeadlineStaysWhileReleasing: a call that is about to write looks at
// it, also after the cut.
func TestTheDeadlineStaysWhileReleasing(t *testing.T) {
	t.Parallel()
	m, _ := run(owned(t), ownership.Event{Kind: ownership.EvRelease, Now: at(time.Second)})
	deadline, armed := m.Deadline()
	require.True(t, armed)
	m, acts := run(m, tick(14*time.Second))
	require.Equal(t, []ownership.Action{ownership.DoCut}, acts)
	require.Equal(t, deadline, m.Term.Deadline)
	_, armed = m.Deadline()
	require.False(t, armed)
	_, acts = run(m, tick(15*time.Second))
	require.Empty(t, acts, "cut once")
}

// TestFC22_AClaimThatWasOnItsWayDuringAClockEventProvesNothing.
func TestFC22_AClaimThatWasOnItsWayDuringAClockEventProvesNothing(t *testing.T) {
	t.Parallel()
	m, _ := run(ownership.New(ownership.Term{}, timing()),
		ownership.Event{Kind: ownership.EvGranted, Now: t0, Lease: "L", Epoch: 7},
		ownership.Event{Kind: ownership.EvClock, Now: at(time.Second)},
		confirm(0, 2*time.Second, 15*time.Second))
	require.Equal(t, ownership.Acquiring, m.Term.State)
	m, _ = run(m, confirm(2*time.Second, 2*time.Second, 15*time.Second))
	require.Equal(t, ownership.Owned, m.Term.State)
}

// TestFC13_ReleaseAgainstDelayedRenewals races a release against delayed
// renewal replies in 100,000 random orders.
func TestFC13_ReleaseAgainstDelayedRenewals(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(13, 13))
	for range 100_000 {
		m := owned(t)
		released := false
		for range 6 {
			var e ownership.Event
			switch rng.IntN(4) {
			case 0:
				e = ownership.Event{Kind: ownership.EvRelease, Now: at(time.Second)}
			case 1:
				e = ownership.Event{Kind: ownership.EvReleased, Now: at(time.Second)}
			default:
				e = confirm(time.Duration(rng.IntN(2000))*time.Millisecond, 2*time.Second, 15*time.Second)
			}
			m, _ = ownership.Step(m, e)
			released = released || e.Kind == ownership.EvRelease
			if released && m.Term.State == ownership.Owned {
				t.Fatalf("a renewal revived a released hold")
			}
		}
	}
}

func TestFC92_AGrantIsOwnedOnlyByItsClaim(t *testing.T) {
	t.Parallel()
	m, acts := run(ownership.New(ownership.Term{}, timing()), confirm(0, 0, 15*time.Second))
	require.Equal(t, ownership.Acquiring, m.Term.State, "a confirmation without a grant proves nothing")
	require.Empty(t, acts)
	m, acts = run(m, ownership.Event{Kind: ownership.EvGranted, Lease: "L", Epoch: 7})
	require.Equal(t, ownership.Acquiring, m.Term.State)
	require.Equal(t, []ownership.Action{ownership.DoClaim}, acts)
	_, acts = run(m, ownership.Event{Kind: ownership.EvGranted, Lease: "L", Epoch: 7})
	require.Empty(t, acts, "told twice, claimed once")
	m, _ = run(m, confirm(0, 10*time.Second, 15*time.Second))
	require.Equal(t, ownership.Acquiring, m.Term.State, "an acknowledgement that took longer than uncertain_after")
	m, _ = run(m, ownership.Event{Kind: ownership.EvDropped, Detail: "claimed too late"})
	require.Equal(t, ownership.Unowned, m.Term.State)
	require.Equal(t, ownership.Expired, m.Term.Reason)
}

func TestFC91_NothingIsExtendedOnAMismatch(t *testing.T) {
	t.Parallel()
	v := func(g, n uint64) lease.SetVersion { return lease.SetVersion{Generation: 0, Version: n + g<<32} }
	tr := ownership.Tracker{}.Apply(v(0, 5))
	require.True(t, tr.Extends(v(0, 5)))
	require.False(t, tr.Extends(v(0, 6)))
	require.False(t, tr.Extends(lease.SetVersion{Generation: 1, Version: 1}), "a new generation is newer whatever its version")
	require.Equal(t, ownership.Ignore, tr.Judge(v(0, 5)))
	require.Equal(t, ownership.Delta, tr.Judge(v(0, 6)))
	require.Equal(t, ownership.Fetch, tr.Judge(v(0, 7)))
	require.Equal(t, ownership.Fetch, tr.Judge(lease.SetVersion{Generation: 1, Version: 6}))
	require.Equal(t, tr, tr.Apply(v(0, 4)), "an older set changes nothing")
}

func states() []ownership.State {
	return []ownership.State{
		ownership.Unowned, ownership.Acquiring, ownership.Waiting, ownership.Owned, ownership.Uncertain,
		ownership.Reconciling, ownership.Releasing, ownership.Lost,
	}
}

func kinds() []ownership.EventKind {
	return []ownership.EventKind{
		ownership.EvGranted, ownership.EvBusy, ownership.EvUndecided, ownership.EvRetry, ownership.EvRefused, ownership.EvConfirmed, ownership.EvTick,
		ownership.EvClock, ownership.EvDropped, ownership.EvSettle, ownership.EvRelease, ownership.EvCallerGone, ownership.EvReleased,
	}
}

// TestTable walks every state and event, before and after the deadline, and
// compares with the table that people read.
func TestTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("| state | " + strings.Join(texts(kinds()), " | ") + " |\n|---" + strings.Repeat("|---", len(kinds())) + "|\n")
	for _, s := range states() {
		fmt.Fprintf(&b, "| %s |", s)
		for _, k := range kinds() {
			fmt.Fprintf(&b, " %s |", cell(s, k))
		}
		b.WriteString("\n")
	}
	const file = "testdata/table.md"
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String(), "run the test with -update and read the difference")
}

func texts(ks []ownership.EventKind) []string {
	var out []string
	for _, k := range ks {
		out = append(out, string(k))
	}
	return out
}

// cell shows the next state and the actions, early and past the deadline.
func cell(s ownership.State, k ownership.EventKind) string {
	m := ownership.Machine{Timing: timing(), Claimed: true, Term: ownership.Term{
		State: s, Lease: "L", Epoch: 7, UncertainAt: at(9 * time.Second), Deadline: at(14 * time.Second),
	}}
	show := func(now time.Duration) string {
		next, acts := ownership.Step(m, ownership.Event{
			Kind: k, Now: at(now), SentAt: at(now), Remaining: 15 * time.Second, Lease: "M", Epoch: 8, Reason: ownership.Refused,
		})
		if next.Term.State == s && len(acts) == 0 {
			return "-"
		}
		out := string(next.Term.State)
		for _, a := range acts {
			out += " +" + string(a)
		}
		return out
	}
	early, late := show(time.Second), show(20*time.Second)
	if early == late {
		return early
	}
	return early + "; late: " + late
}

func TestFinalStatesStayFinal(t *testing.T) {
	t.Parallel()
	for _, s := range []ownership.State{ownership.Lost, ownership.Unowned} {
		for _, k := range kinds() {
			m := ownership.Machine{Timing: timing(), Claimed: true, Term: ownership.Term{State: s, Lease: "L", Epoch: 7}}
			next, _ := ownership.Step(m, ownership.Event{Kind: k, Now: t0, SentAt: t0, Remaining: time.Minute, Lease: "M", Epoch: 8})
			require.Equal(t, s, next.Term.State, "%s in %s", k, s)
		}
	}
}
