package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/gate"
	"github.com/forgeyard/concurrency/sidecar/keeper"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// releasing releases beside the test; the channel has the final term.
func (b *bench) releasing(key ownership.Key) <-chan ownership.Term {
	final := make(chan ownership.Term, 1)
	go func() {
		t, err := b.keeper.Release(b.t.Context(), key)
		if err != nil && !errors.Is(err, keeper.ErrStopped) && b.t.Context().Err() == nil {
			b.t.Errorf("release: %v", err)
		}
		final <- t
	}()
	return final
}

func (b *bench) final(c <-chan ownership.Term) ownership.Term {
	b.t.Helper()
	select {
	case t := <-c:
		return t
	case <-time.After(patience):
		require.FailNow(b.t, "the release never ended")
		return ownership.Term{}
	}
}

// done acknowledges a release.
func (b *bench) done(c *call) {
	b.version++
	c.answer(lease.Answer{Code: lease.Done, Version: b.at()})
}

// TestFC12_AbandonClosesTheGateThenCutsThenReleases, without waiting for any
// time to pass.
func TestFC12_AbandonClosesTheGateThenCutsThenReleases(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, l := b.own(b.request())
	running, cut := b.admitted(key), make(chan *gate.Refusal, 1)
	b.gate.OnCut(key, func() {
		_, r := b.gate.Admit(key)
		cut <- r
	})
	b.keeper.Abandon(key)
	select {
	case r := <-cut:
		require.NotNil(t, r, "cut before the gate was closed")
		require.Equal(t, gate.CodeNoHold, r.Code)
	case <-time.After(patience):
		require.FailNow(t, "not cut")
	}
	b.turn()
	require.Zero(t, b.link.asked(releases), "released with a call in flight")
	running.Done()
	r := b.link.next(releases)
	require.Equal(t, lease.CallerGone, r.command.Release.Why)
	require.Equal(t, l.ID, r.command.Release.Lease)
	require.EqualValues(t, l.Epoch, r.command.Release.Epoch)
	b.done(r)
	b.eventually(func() bool { return len(b.gate.View().Holds) == 0 }, "the hold is not forgotten")
}

// TestFC103_TheReceiptLeavesWhenNothingIsInFlight while callers go on trying.
func TestFC103_TheReceiptLeavesWhenNothingIsInFlight(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 30 {
		key, _ := b.own(b.request())
		var receipt atomic.Bool
		var late atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				for ctx.Err() == nil {
					p, r := b.gate.Admit(key)
					if r != nil {
						return
					}
					if receipt.Load() && p.Check() == nil {
						late.Add(1)
					}
					p.Done()
				}
			})
		}
		final := b.releasing(key)
		r := b.link.next(releases)
		receipt.Store(true)
		callers.Wait() // they end by the gate's refusal alone
		stop()
		require.Zero(t, late.Load(), "admitted after the receipt")
		b.done(r)
		require.Equal(t, ownership.Unowned, b.final(final).State)
	}
}

// TestFC13_AReleaseAgainstDelayedRenewals: whatever order the answers come in,
// watchedGate sees no hold come back.
func TestFC13_AReleaseAgainstDelayedRenewals(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rng := rand.New(rand.NewPCG(13, 1))
	for range 100 {
		key, l := b.own(b.request())
		b.advance(b.budget.Interval)
		renewal := b.link.next(beats)
		b.keeper.Nudged(lease.SetVersion{Generation: 1, Version: b.version + 7})
		fetch := b.link.next(fetches)
		final := b.releasing(key)
		release := b.link.next(releases)
		before := b.at()
		l.State = lease.Live
		answers := []func(){
			func() { renewal.answer(lease.Answer{Code: lease.Renewed, Version: before, Remaining: b.budget.TTL}) },
			func() {
				fetch.set(keeper.Set{Version: before, Remaining: b.budget.TTL, Leases: []keeper.SetLease{{Lease: l, OwnRemaining: -1}}})
			},
			func() { b.done(release) },
		}
		rng.Shuffle(len(answers), func(i, j int) { answers[i], answers[j] = answers[j], answers[i] })
		for _, answer := range answers {
			answer()
		}
		require.Equal(t, ownership.Unowned, b.final(final).State)
		b.settle()
	}
}

// settle answers what the keeper still asks until it has the present set.
func (b *bench) settle() {
	b.eventually(func() bool {
		for b.link.asked(fetches) > 0 {
			b.link.next(fetches).set(keeper.Set{Version: b.at(), Remaining: b.budget.TTL})
		}
		for b.link.asked(beats) > 0 {
			b.beat()
		}
		for b.link.asked(releases) > 0 { // of a lease that an old set still had
			b.link.next(releases).answer(lease.Answer{Code: lease.AlreadyEnded, Version: b.at()})
		}
		return b.keeper.Status().Version == b.at() && b.keeper.Status().ConfirmedAgo == 0
	}, "it does not come to rest")
}

// TestAReleaseSaysWhatIsUnknown after settle_timeout, and not earlier.
func TestAReleaseSaysWhatIsUnknown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, l := b.own(b.request())
	require.NoError(t, b.journal.Begin(t.Context(), effect.Effect{ID: ulid.Make().String(), Lease: l.ID, Scope: prod(t), Epoch: l.Epoch, Provider: "p"}))
	final := b.releasing(key)
	b.until(key, ownership.Releasing)
	b.refused(key, gate.CodeNoHold)
	from := b.clock.Boot()
	b.eventually(func() bool {
		b.clock.Advance(time.Second)
		return b.link.asked(releases) > 0
	}, "nothing is released")
	require.GreaterOrEqual(t, b.clock.Boot().Sub(from), 30*time.Second, "released with an open effect")
	r := b.link.next(releases)
	require.Equal(t, 1, r.command.Release.Unknown)
	require.Equal(t, lease.Released, r.command.Release.Why)
	b.done(r)
	b.final(final)
}

// TestI5_ReleasingIsCutAtTheHardDeadline: what has not settled by then is not
// left to run into the next holder's time.
func TestI5_ReleasingIsCutAtTheHardDeadline(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, _ := b.own(b.request())
	running, cut := b.admitted(key), b.cutOf(key)
	b.releasing(key)
	b.until(key, ownership.Releasing)
	require.Nil(t, running.CheckRunning(), "what has started may settle")
	b.advance(b.budget.HardDeadline())
	b.wait(cut, "not cut")
	require.NotNil(t, running.CheckRunning(), "the deadline holds while it is released too")
	running.Done()
}

// TestAHangingCallKeepsAReleaseForTheSettleTimeout and no longer, while the
// authority confirms the session.
func TestAHangingCallKeepsAReleaseForTheSettleTimeout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, _ := b.own(b.request())
	running, cut := b.admitted(key), b.cutOf(key)
	final := b.releasing(key)
	b.until(key, ownership.Releasing)
	for range 9 {
		deadline := b.term(key).Deadline
		b.advance(b.budget.Interval)
		b.beat()
		b.untilTerm(key, func(t ownership.Term) bool { return t.Deadline > deadline })
	}
	notYet(t, cut, "cut before settle_timeout")
	require.Nil(t, running.CheckRunning())
	b.advance(b.budget.Interval)
	b.wait(cut, "a hanging call keeps the scope")
	running.Done()
	b.done(b.link.next(releases))
	require.Equal(t, ownership.Unowned, b.final(final).State)
}

// TestARepeatedRequestAttaches by its command id, of the same user only.
func TestARepeatedRequestAttaches(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.request()
	r.CommandID = ulid.Make().String()
	key, _ := b.own(r)
	again, _, err := b.keeper.Start(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, key, again)
	r.UID++
	other, _, err := b.keeper.Start(t.Context(), r)
	require.NoError(t, err)
	require.NotEqual(t, key, other)
}

// TestRefusals tells the caller in typed words why.
func TestRefusals(t *testing.T) {
	t.Parallel()
	holder := &lease.Summary{Lease: "N", Epoch: 8, Holder: lease.Holder{Kind: lease.HolderDeployment, ID: "web-42"}}
	for _, c := range []struct {
		answer lease.Answer
		err    error
		reason ownership.Reason
		detail string
	}{
		{answer: lease.Answer{Code: lease.Busy, Holder: holder}, reason: ownership.Refused, detail: "busy"},
		{answer: lease.Answer{Code: lease.Rejected, Reason: lease.ScopeBlocked, Detail: "since noon"}, reason: ownership.Blocked, detail: "since noon"},
		{answer: lease.Answer{Code: lease.Rejected, Reason: lease.TTLOutOfBounds, Detail: "ttl 15s"}, reason: ownership.Refused, detail: "ttl 15s"},
		{err: &keeper.MalformedError{Detail: "scope: no"}, reason: ownership.Refused, detail: "scope: no"},
	} {
		t.Run(fmt.Sprintf("%s %s", c.answer.Code, c.answer.Reason), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			done := make(chan error, 1)
			go func() {
				_, err := b.keeper.Acquire(t.Context(), b.request())
				done <- err
			}()
			asked := b.link.next(acquires)
			if c.err != nil {
				asked.fail(c.err)
			} else {
				asked.answer(c.answer)
			}
			var refused *keeper.RefusedError
			require.True(t, errors.As(<-done, &refused))
			require.Equal(t, c.reason, refused.Term.Reason)
			require.Contains(t, refused.Term.Detail, c.detail)
			require.Equal(t, c.answer.Holder, refused.Term.Successor)
		})
	}
}

// TestACallerThatGivesUpGetsNothing: what was granted meanwhile goes back.
func TestACallerThatGivesUpGetsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, giveUp := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := b.keeper.Acquire(ctx, b.request())
		done <- err
	}()
	asked := b.link.next(acquires)
	giveUp()
	require.ErrorIs(t, <-done, context.Canceled)
	b.eventually(func() bool { return len(b.gate.View().Holds) == 0 }, "the request is not forgotten")
	b.version++
	l := lease.Lease{ID: asked.command.Acquire.Lease, Scope: prod(t), Session: session, Epoch: 7, State: lease.Granted}
	asked.answer(lease.Answer{Code: lease.Acquired, Lease: &l, Version: b.at(), Epoch: 7})
	require.Equal(t, l.ID, b.link.next(releases).command.Release.Lease)
}
