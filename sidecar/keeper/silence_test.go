package keeper_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/gate"
	"github.com/forgeyard/concurrency/sidecar/keeper"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// refused asserts what the gate says to a new call.
func (b *bench) refused(key ownership.Key, code gate.Code) {
	b.t.Helper()
	_, r := b.gate.Admit(key)
	require.NotNil(b.t, r, "admitted")
	require.Equal(b.t, code, r.Code, r.Detail)
}

func (b *bench) admitted(key ownership.Key) gate.Permit {
	b.t.Helper()
	p, r := b.gate.Admit(key)
	require.Nil(b.t, r)
	return p
}

// cutOf registers a connection of the hold; the channel is closed by its cut.
func (b *bench) cutOf(key ownership.Key) <-chan struct{} {
	cut := make(chan struct{})
	b.gate.OnCut(key, func() { close(cut) })
	return cut
}

func (b *bench) wait(c <-chan struct{}, problem string) {
	b.t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		require.FailNow(b.t, problem)
	}
}

func notYet(t *testing.T, c <-chan struct{}, problem string) {
	t.Helper()
	select {
	case <-c:
		require.FailNow(t, problem)
	default:
	}
}

// retried lets time pass until the next heartbeat.
func (b *bench) retried() *call {
	b.t.Helper()
	b.eventually(func() bool {
		if b.link.asked(beats) == 0 {
			b.clock.Advance(10 * time.Millisecond)
		}
		return b.link.asked(beats) > 0
	}, "no further heartbeat")
	return b.link.next(beats)
}

// TestI5_FC20_ABlackHoleIsBlockedAndCutWithinTheBudget: requests are swallowed,
// not refused.
func TestI5_FC20_ABlackHoleIsBlockedAndCutWithinTheBudget(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, _ := b.own(b.request())
	cut := b.cutOf(key)
	b.advance(b.budget.Interval)
	b.link.next(beats)
	b.advance(b.budget.UncertainAfter - b.budget.Interval)
	require.Equal(t, ownership.AuthorityUnreachable, b.until(key, ownership.Uncertain).Reason)
	b.refused(key, gate.CodeUncertain)
	b.advance(b.budget.Interval)
	b.link.next(beats) // the first attempt was given up
	notYet(t, cut, "Uncertain cuts nothing")
	b.advance(b.budget.HardDeadline() - b.budget.UncertainAfter - b.budget.Interval)
	require.Equal(t, ownership.Expired, b.until(key, ownership.Lost).Reason)
	b.wait(cut, "not cut at the hard deadline")
	b.refused(key, gate.CodeLost)
}

// TestFC21_TheGateClosesWhenTheKeeperIsGone: nobody renews and nobody publishes.
func TestFC21_TheGateClosesWhenTheKeeperIsGone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, _ := b.own(b.request())
	b.stop()
	b.admitted(key).Done()
	b.clock.Advance(b.budget.UncertainAfter)
	b.refused(key, gate.CodeUncertain)
	require.Equal(t, "unconfirmed", b.keeper.Status().State)
	b.clock.Advance(b.budget.HardDeadline() - b.budget.UncertainAfter)
	b.refused(key, gate.CodeLost)
}

// TestFC22_ASleepingMachineDistrustsEverythingUntilConfirmed: boottime goes on
// while every timer stands still.
func TestFC22_ASleepingMachineDistrustsEverythingUntilConfirmed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, _ := b.own(b.request())
	b.clock.Sleep(2 * time.Second) // within the budget
	b.turn()
	require.Equal(t, ownership.ClockEvent, b.until(key, ownership.Uncertain).Reason)
	b.refused(key, gate.CodeUncertain)
	b.beat()
	b.until(key, ownership.Owned)
	b.clock.Sleep(time.Hour)
	b.refused(key, gate.CodeLost) // the first call, before the loop has noticed anything
	b.turn()
	b.until(key, ownership.Lost)
}

// TestFC22_AStepOfTheWallClockDistrustsAnswersOnTheirWay: what was sent before
// the step confirms nothing.
func TestFC22_AStepOfTheWallClockDistrustsAnswersOnTheirWay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, _ := b.own(b.request())
	b.link.deaf.Store(true)
	b.advance(b.budget.Interval)
	before := b.link.next(beats)
	b.clock.StepWall(-time.Minute)
	b.turn()
	b.until(key, ownership.Uncertain)
	after := b.link.next(beats) // at once, not after the first one's time
	before.answer(b.renewed())
	b.turn()
	b.refused(key, gate.CodeUncertain)
	after.answer(b.renewed())
	b.until(key, ownership.Owned)
}

// TestFC26_UncertainKillsNothingAndRecovers with the same lease and epoch.
func TestFC26_UncertainKillsNothingAndRecovers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, l := b.own(b.request())
	running, cut := b.admitted(key), b.cutOf(key)
	defer running.Done()
	b.advance(b.budget.UncertainAfter)
	b.until(key, ownership.Uncertain)
	b.refused(key, gate.CodeUncertain)
	attempt := b.link.next(beats)
	require.Nil(t, running.CheckRunning(), "what has started goes on")
	b.advance(b.budget.HardDeadline() - b.budget.UncertainAfter - 1)
	notYet(t, cut, "cut before the hard deadline")
	attempt.answer(b.renewed())
	term := b.until(key, ownership.Owned)
	require.Equal(t, l.ID, term.Lease)
	require.Equal(t, l.Epoch, term.Epoch)
	notYet(t, cut, "cut")
}

// TestFC57_AnAnswerToAnAttemptThatWasGivenUpChangesNothing, although it is
// genuine and its own duration would still reach into the future.
func TestFC57_AnAnswerToAnAttemptThatWasGivenUpChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.link.deaf.Store(true)
	key, _ := b.own(b.request())
	deadline := b.term(key).Deadline
	b.advance(b.budget.Interval)
	late := b.link.next(beats)
	b.advance(b.budget.UncertainAfter - b.budget.Interval) // gives it up
	next := b.retried()
	late.answer(lease.Answer{Code: lease.Rejected, Reason: lease.SessionEnded}) // even one that would end everything
	next.fail(keeper.ErrUnreachable)
	b.retried() // the failure was seen, and the late answer was there before it
	require.Equal(t, deadline, b.term(key).Deadline)
	require.NotContains(t, b.term(key).Detail, "session")
	require.Equal(t, session, b.keeper.Status().Session)
}

// TestI5_AStalledDiskLosesOwnershipByItself: no heartbeat without a durable
// write, and the cut waits for no disk.
func TestI5_AStalledDiskLosesOwnershipByItself(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, _ := b.own(b.request())
	cut := b.cutOf(key)
	resume := b.keeper.StallDisk()
	defer resume()
	b.advance(b.budget.Interval)
	b.advance(b.budget.UncertainAfter - b.budget.Interval)
	b.until(key, ownership.Uncertain)
	b.advance(b.budget.HardDeadline() - b.budget.UncertainAfter)
	b.until(key, ownership.Lost)
	b.wait(cut, "the cut waits for the disk")
	require.Zero(t, b.link.asked(beats), "a heartbeat left before its write was durable")
}

// TestARefusedSessionLosesEverythingAndRegistersAnew.
func TestARefusedSessionLosesEverythingAndRegistersAnew(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, _ := b.own(b.request())
	cut := b.cutOf(key)
	b.advance(b.budget.Interval)
	b.link.next(beats).answer(lease.Answer{Code: lease.Rejected, Reason: lease.WrongNonce, Detail: "another process"})
	require.Equal(t, ownership.Expired, b.until(key, ownership.Lost).Reason)
	b.wait(cut, "not cut")
	select {
	case <-b.link.reregistered:
	case <-time.After(patience):
		require.FailNow(t, "it does not register anew")
	}
	require.Zero(t, b.link.asked(releases), "there is nobody to release to")
}

// A node that was revoked does not work on until its time is over: not when a
// heartbeat tells, and not when a registration does, after a restart too.
func TestARevokedNodeStopsAtOnceAndSaysWhy(t *testing.T) {
	t.Parallel()
	revoked := lease.Answer{Code: lease.Rejected, Reason: lease.NodeRevoked, Detail: "node node-a was revoked by person:sre: stolen"}
	for name, tell := range map[string]func(*bench){
		"by a heartbeat": func(b *bench) {
			b.advance(b.budget.Interval)
			b.link.next(beats).answer(revoked)
		},
		"by a registration": func(b *bench) { b.keeper.Waiting(revoked) },
		"after a restart": func(b *bench) {
			b.restart()
			b.keeper.Waiting(revoked)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			key, _ := b.own(b.request())
			tell(b)
			lost := b.until(key, ownership.Lost)
			require.Equal(t, ownership.Revoked, lost.Reason)
			require.Contains(t, lost.Detail, "by person:sre: stolen")
			b.turn()
			require.Contains(t, b.keeper.Status().Detail, "node-revoked")
		})
	}
}
