package keeper_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/cache"
	"github.com/forgeyard/concurrency/sidecar/gate"
	"github.com/forgeyard/concurrency/sidecar/keeper"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// stored waits for everything that was queued for the disk.
func (b *bench) stored() {
	b.t.Helper()
	b.advance(b.budget.Interval)
	b.beat() // it leaves after its own write, which is the last
	b.confirmed()
}

// TestARestartIsUncertainUntilTheSetConfirms the same lease and epoch.
func TestARestartIsUncertainUntilTheSetConfirms(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, l := b.own(b.request())
	b.stored()
	b.restart()
	require.Equal(t, ownership.Restarted, b.term(key).Reason)
	b.refused(key, gate.CodeUncertain)
	r, err := b.keeper.Registration()
	require.NoError(t, err)
	require.Equal(t, session, r.Resume)
	require.NotEqual(t, r.Nonce, r.ResumeNonce)
	b.register(true)
	b.link.next(beats).answer(b.renewed()) // nothing is applied yet: this proves nothing
	b.turn()
	b.refused(key, gate.CodeUncertain)
	l.State = lease.Live
	b.answerSet(l)
	require.Equal(t, l.Epoch, b.until(key, ownership.Owned).Epoch)
	_, err = b.keeper.Reattach(t.Context(), key, 1001, keeper.Binding{Stream: true})
	require.ErrorIs(t, err, keeper.ErrNoHold, "another user")
	_, err = b.keeper.Reattach(t.Context(), key, 1000, keeper.Binding{Stream: true})
	require.NoError(t, err)
}

// TestARestartOfAStreamHoldEndsItWithoutItsHolder after uncertain_after.
func TestARestartOfAStreamHoldEndsItWithoutItsHolder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, l := b.own(b.request())
	b.stored()
	b.restart()
	b.register(true)
	l.State = lease.Live
	b.answerSet(l)
	b.until(key, ownership.Owned)
	b.advance(b.budget.UncertainAfter)
	require.Equal(t, lease.CallerGone, b.link.next(releases).command.Release.Why)
}

// TestFC12_ARestartAbandonsTheHoldOfAProcessThatIsGone.
func TestFC12_ARestartAbandonsTheHoldOfAProcessThatIsGone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.request()
	r.Binding = keeper.Binding{PID: 4711, StartTime: 99}
	_, l := b.own(r)
	b.stored()
	b.alive = false
	b.restart()
	b.register(true)
	released := b.link.next(releases).command.Release
	require.Equal(t, l.ID, released.Lease)
	require.Equal(t, lease.CallerGone, released.Why)
}

// TestFC13_ARestartDoesNotTakeUpWhatWasReleased, nor what was lost, although
// the authority still counts it and would confirm it.
func TestFC13_ARestartDoesNotTakeUpWhatWasReleased(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end func(*bench, ownership.Key)
		why lease.EndReason
	}{
		"released": {func(b *bench, key ownership.Key) { b.releasing(key); b.link.next(releases) }, lease.Released},
		"abandoned": {func(b *bench, key ownership.Key) {
			b.keeper.Abandon(key)
			b.link.next(releases)
		}, lease.CallerGone},
		"lost": {func(b *bench, key ownership.Key) {
			b.advance(b.budget.HardDeadline())
			b.until(key, ownership.Lost)
			b.link.next(releases)
			b.link.next(beats).answer(b.renewed()) // the session lives on
		}, lease.CallerGone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			key, l := b.own(b.request())
			c.end(b, key)
			b.stored()
			b.restart()
			b.refused(key, gate.CodeNoHold)
			b.register(true)
			l.State = lease.Live
			b.answerSet(l)
			r := b.link.next(releases).command.Release
			require.Equal(t, l.ID, r.Lease)
			require.Equal(t, c.why, r.Why)
			b.refused(key, gate.CodeNoHold)
		})
	}
}

// TestFC56_ADamagedCacheStartsWithNothingButItsReceipts: no session to resume,
// no hold, and every epoch that it had seen.
func TestFC56_ADamagedCacheStartsWithNothingButItsReceipts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, l := b.own(b.request())
	b.stored()
	b.stop()
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "cache.db"), []byte("this is no database at all"), 0o600))
	b.start()
	b.refused(key, gate.CodeNoHold)
	r, err := b.keeper.Registration()
	require.NoError(t, err)
	require.Empty(t, r.Resume)
	require.Len(t, r.Receipts, 1)
	require.Equal(t, l.Epoch, r.Receipts[0].Epoch)
	require.Equal(t, epoch.Receipt("seal"), r.Receipts[0].Seal)
}

// TestFC99_ACopiedDirectoryResumesNothing: the first copy's session is opened
// by the authority's rule, then both a copy of its files and a restart ask to
// resume it.
func TestFC99_ACopiedDirectoryResumesNothing(t *testing.T) {
	t.Parallel()
	b := prepare(t)
	b.start()
	facts := lease.Facts{Now: b.clock.Now(), Generation: 1, Pause: lease.NoPause(), MaxTTL: time.Minute, LockDelay: b.budget.LockDelay}
	request := func(k *keeper.Keeper) lease.RegisterRequest {
		r, err := k.Registration()
		require.NoError(t, err)
		return lease.RegisterRequest{
			Session: session, Node: "node-a", Nonce: r.Nonce, BootID: r.BootID, LockFile: r.LockFile, TTL: r.TTL,
			Resume: r.Resume, ResumeNonce: r.ResumeNonce,
		}
	}
	_, opened := lease.Register(facts, nil, request(b.keeper))
	require.Equal(t, lease.Registered, opened.Code)
	b.register(false)
	key, _ := b.own(b.request())
	b.stored()
	b.stop()

	clone := prepare(t)
	clone.clock = b.clock
	require.NoError(t, os.CopyFS(clone.dir, os.DirFS(b.dir)))
	b.clock.Advance(time.Second) // another nonce
	clone.start()
	asked := request(clone.keeper)
	require.Equal(t, session, asked.Resume, "it believes what it copied")
	_, refused := lease.Register(facts, opened.Session, asked)
	require.Equal(t, lease.Wait, refused.Code)
	require.Equal(t, lease.NodeConflict, refused.Reason)
	clone.refused(key, gate.CodeUncertain)

	b.start()
	_, resumed := lease.Register(facts, opened.Session, request(b.keeper))
	require.Equal(t, lease.Resumed, resumed.Code, "the same boot, the same locked file")
	_, err := cache.Acquire(filepath.Join(b.dir, "lock"))
	require.ErrorIs(t, err, cache.ErrInUse)
}

// TestAnotherSessionThanTheFormerOnesEndsWhatItHeld.
func TestAnotherSessionThanTheFormerOnesEndsWhatItHeld(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, _ := b.own(b.request())
	b.stored()
	b.restart()
	cut := b.cutOf(key)
	b.register(false)
	require.Equal(t, ownership.Expired, b.term(key).Reason)
	b.wait(cut, "not cut")
	b.refused(key, gate.CodeLost)
	require.Zero(t, b.link.asked(releases), "there is nobody to release to")
	b.restart()
	require.Empty(t, b.gate.View().Holds, "remembered beyond its session")
}

// TestI5_ARestartedHoldTrustsNoLongerThanTheFormerProcess: a set confirms only
// for what the session had left when it was read.
func TestI5_ARestartedHoldTrustsNoLongerThanTheFormerProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, l := b.own(b.request())
	b.stored()
	before := b.term(key)
	b.advance(time.Second)
	b.version++
	b.keeper.Nudged(b.at())
	l.State = lease.Live
	b.link.next(fetches).set(keeper.Set{Version: b.at(), Remaining: b.budget.TTL / 3, Leases: []keeper.SetLease{{Lease: l, OwnRemaining: -1}}})
	b.eventually(func() bool { return b.keeper.Status().Version == b.at() }, "the set was not applied")
	b.advance(b.budget.Interval)
	b.link.next(beats) // its write came first; the answer never does
	b.restart()
	after := b.term(key)
	require.Equal(t, ownership.Restarted, after.Reason)
	require.LessOrEqual(t, after.Deadline, before.Deadline)
	require.LessOrEqual(t, after.KillAt, before.KillAt)
}
