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

// TestFC91_ANewerSetExtendsNothingAndIsReportedOnlyAfterTheCut.
func TestFC91_ANewerSetExtendsNothingAndIsReportedOnlyAfterTheCut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, l := b.own(b.request())
	deadline, applied := b.term(key).Deadline, b.at()
	cut := b.cutOf(key)
	b.advance(b.budget.Interval)
	b.version++ // somebody revoked the lease meanwhile
	beat := b.link.next(beats)
	require.Equal(t, applied, beat.beat.Applied)
	beat.answer(b.renewed())
	fetch := b.link.next(fetches)
	require.Equal(t, []string{l.ID}, fetch.known)
	require.Equal(t, deadline, b.term(key).Deadline, "extended on a mismatch")
	notYet(t, cut, "cut for a hint")
	l.State, l.EndReason, l.EndedBy, l.EndDetail = lease.Draining, lease.ForceReleased, "ann", "stuck since noon"
	fetch.set(keeper.Set{Version: b.at(), Remaining: b.budget.TTL, Leases: []keeper.SetLease{{Lease: l, OwnRemaining: -1}}})
	reported := b.link.next(beats) // at once: the authority waits for it
	require.Equal(t, b.at(), reported.beat.Applied)
	b.wait(cut, "reported as applied before the cut")
	b.refused(key, gate.CodeLost)
	require.Equal(t, deadline, b.term(key).Deadline)
}

// TestFC92_OldNewsInstallsNothing: a replayed claim, a late push, a grant that
// was over before its answer came.
func TestFC92_OldNewsInstallsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.keeper.Nudged(lease.SetVersion{Generation: 1})
	b.turn()
	require.Zero(t, b.link.asked(fetches), "an old push is worth nothing")
	key, l := b.granted(b.request())
	b.link.next(claims).answer(lease.Answer{Code: lease.Claimed, Lease: &l, Version: b.at(), Epoch: l.Epoch}) // replayed: no duration
	beat := b.link.next(beats)
	require.Equal(t, ownership.Acquiring, b.term(key).State)
	b.refused(key, gate.CodeNoHold)
	beat.answer(b.renewed())
	b.until(key, ownership.Owned)
}

// TestFC92_AGrantThatWasOverIsAskedForAgain.
func TestFC92_AGrantThatWasOverIsAskedForAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.request()
	r.Wait = time.Minute
	key, l := b.granted(r)
	b.link.next(claims).answer(lease.Answer{Code: lease.Lost, Reason: lease.NoLease, Detail: "claimed too late"})
	b.until(key, ownership.Waiting)
	b.advance(time.Second)
	require.NotEqual(t, l.ID, b.link.next(acquires).command.Acquire.Lease)
}

// TestASetFromBeforeTheGrantDoesNotEndIt: it cannot have the lease yet.
func TestASetFromBeforeTheGrantDoesNotEndIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.version++
	b.keeper.Nudged(b.at())
	fetch, before := b.link.next(fetches), b.at()
	key, l := b.granted(b.request())
	claim := b.link.next(claims)
	fetch.set(keeper.Set{Version: before, Remaining: b.budget.TTL})
	b.eventually(func() bool { return !b.keeper.Status().Version.Before(before) }, "the set was not applied")
	require.Equal(t, l.ID, b.term(key).Lease)
	claim.answer(lease.Answer{Code: lease.Claimed, Lease: &l, Version: b.at(), Epoch: l.Epoch, Remaining: b.budget.TTL})
	b.until(key, ownership.Owned)
}

// TestAGrantWhoseAnswerIsLostIsFoundInTheSet by the id that the sidecar chose.
func TestAGrantWhoseAnswerIsLostIsFoundInTheSet(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, _, err := b.keeper.Start(t.Context(), b.request())
	require.NoError(t, err)
	asked := b.link.next(acquires).command.Acquire
	b.version++
	l := lease.Lease{ID: asked.Lease, Scope: asked.Scope, Holder: asked.Holder, Session: session, Epoch: 9, State: lease.Granted}
	b.keeper.Nudged(b.at())
	b.answerSet(l)
	b.link.next(claims).answer(lease.Answer{Code: lease.Claimed, Lease: &l, Version: b.at(), Epoch: 9, Remaining: b.budget.TTL})
	require.EqualValues(t, 9, b.until(key, ownership.Owned).Epoch)
}

// TestALeaseThatNobodyWaitsForIsGivenBack.
func TestALeaseThatNobodyWaitsForIsGivenBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.version++
	b.keeper.Nudged(b.at())
	b.answerSet(lease.Lease{ID: "orphan", Scope: prod(t), Session: session, Epoch: 5, State: lease.Live})
	r := b.link.next(releases).command.Release
	require.Equal(t, "orphan", r.Lease)
	require.Equal(t, lease.CallerGone, r.Why)
}

// TestFC27_TheLossNamesWhoAndTheSuccessor.
func TestFC27_TheLossNamesWhoAndTheSuccessor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end    lease.EndReason
		reason ownership.Reason
		detail string
	}{
		"forced":     {lease.ForceReleased, ownership.Revoked, "ann"},
		"superseded": {lease.Superseded, ownership.Superseded, "stuck since noon"},
		"max hold":   {lease.MaxHold, ownership.Superseded, "longer than the policy allows"}, // and somebody has it
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			key, l := b.own(b.request())
			b.version++
			b.keeper.Nudged(b.at())
			l.State, l.EndReason, l.EndedBy, l.EndDetail = lease.Ended, c.end, "ann", "stuck since noon"
			next := &lease.Summary{Lease: "N", Epoch: 8, Holder: lease.Holder{Kind: lease.HolderDeployment, ID: "web-42"}, Node: "node-b"}
			b.link.next(fetches).set(keeper.Set{Version: b.at(), Remaining: b.budget.TTL, Ended: []keeper.Ended{{Lease: l, Successor: next}}})
			term := b.until(key, ownership.Lost)
			require.Equal(t, c.reason, term.Reason)
			require.Contains(t, term.Detail, c.detail)
			require.Equal(t, next, term.Successor)
		})
	}
}

// TestALeaseWithALimitOfItsOwnEndsThere, whatever the session gets.
func TestALeaseWithALimitOfItsOwnEndsThere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, l := b.granted(b.request())
	l.State, l.MaxUntil = lease.Live, b.clock.Now().Add(20*time.Second)
	own := b.clock.Boot().Add(20*time.Second - b.budget.Margin)
	b.link.next(claims).answer(lease.Answer{Code: lease.Claimed, Lease: &l, Version: b.at(), Epoch: l.Epoch, Remaining: b.budget.TTL})
	first := b.until(key, ownership.Owned).Deadline
	fetch := b.link.next(fetches) // the limit as a duration
	b.advance(b.budget.Interval)
	b.beat()
	b.confirmed()
	require.Equal(t, first, b.term(key).Deadline, "extended while its limit was not known")
	fetch.set(keeper.Set{Version: b.at(), Remaining: b.budget.TTL, Leases: []keeper.SetLease{{Lease: l, OwnRemaining: 20 * time.Second}}})
	b.link.next(fetches) // another one was owed: the first was applied
	b.advance(b.budget.Interval)
	b.beat()
	require.Equal(t, own, b.untilTerm(key, func(t ownership.Term) bool { return t.Deadline > first }).Deadline)
}

// TestAWaitIsAsLongAsAsked.
func TestAWaitIsAsLongAsAsked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.request()
	r.Wait = time.Second
	key, terms, err := b.keeper.Start(t.Context(), r)
	require.NoError(t, err)
	holder := &lease.Summary{Lease: "N", Epoch: 8, Holder: lease.Holder{Kind: lease.HolderDeployment, ID: "web-42"}}
	b.link.next(acquires).answer(lease.Answer{Code: lease.Busy, Holder: holder, RetryAfter: time.Minute})
	b.until(key, ownership.Waiting)
	b.advance(time.Second)
	for {
		select {
		case term := <-terms:
			if term.State != ownership.Unowned {
				continue
			}
			require.Equal(t, ownership.WaitTimeout, term.Reason)
			require.Equal(t, holder, term.Successor)
			return
		case <-time.After(patience):
			require.FailNow(t, "it waits on")
		}
	}
}

// TestAHintOutlivesASetThatWasOvertaken: the fetch that it asked for is owed,
// although the one under way then brings old news.
func TestAHintOutlivesASetThatWasOvertaken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	before := b.at()
	b.keeper.Nudged(lease.SetVersion{Generation: 1, Version: b.version + 7})
	fetch := b.link.next(fetches)
	key, l := b.own(b.request()) // a delta: the set under way is older now
	b.keeper.Nudged(lease.SetVersion{Generation: 1, Version: b.version + 7})
	b.turn()
	require.Zero(t, b.link.asked(fetches), "two fetches at once")
	fetch.set(keeper.Set{Version: before, Remaining: b.budget.TTL})
	require.Equal(t, []string{l.ID}, b.link.next(fetches).known)
	require.Equal(t, ownership.Owned, b.term(key).State)
}
