package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
)

func TestI1_SecondRequestFindsTheScopeBusyAndLearnsWho(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.joins("a", "b")
	e := b.owns("a", "L1")
	got := b.acquire("b", "L2")
	require.Equal(t, lease.Busy, got.Code)
	require.Equal(t, "L1", got.Holder.Lease)
	require.Equal(t, lease.Holder{Kind: lease.HolderController, ID: "deployer-a"}, got.Holder.Holder)
	require.Equal(t, e, got.Holder.Epoch)
	require.Equal(t, "a", got.Holder.Node)
	require.True(t, got.Holder.Alive)
	require.Equal(t, ttl, got.Holder.ExpiresIn)
	require.Equal(t, ttl+lockDelay, got.RetryAfter)
	require.Len(t, b.c.Leases, 1)
}

func TestI2_ValidateRefusesTwoHoldersAndFallingEpochs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.joins("a", "b")
	e := b.owns("a", "L1")
	held := b.c.Leases[0]
	above := held
	above.ID, above.Session, above.Node, above.State, above.Epoch = "L2", "b", "b", lease.Granted, e+1
	raised, fallen := b.c.Scope, b.c.Scope
	raised.Epoch, fallen.Epoch = e+1, e-1
	back, renamed, unexplained := held, held, held
	back.State, renamed.Session, unexplained.State = lease.Granted, "b", lease.Ended
	for name, ch := range map[string]lease.Change{
		"exclusive leases":     {Scope: &raised, Leases: []lease.Lease{above}},
		"epoch falls":          {Scope: &fallen},
		"state goes back":      {Leases: []lease.Lease{back}},
		"identity changed":     {Leases: []lease.Lease{renamed}},
		"without a reason":     {Leases: []lease.Lease{unexplained}},
		"(I2)":                 {Leases: []lease.Lease{{ID: "L3", State: lease.Granted, Epoch: e, Session: "a"}}},
		"stays at set version": {Leases: []lease.Lease{ended(held)}},
	} {
		require.ErrorContains(t, lease.Validate(b.c, ch), name)
	}
}

func ended(l lease.Lease) lease.Lease {
	l.State, l.EndReason = lease.Ended, lease.Expired
	return l
}

// Every way in which a scope can change hands; the next owner's epoch is
// above, and so is what is issued in between.
func TestFC04_EveryChangeOfOwnershipRaisesTheEpoch(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*bench, epoch.Epoch){
		"release":     func(b *bench, e epoch.Epoch) { b.release("a", "L1", e, lease.Released, 0) },
		"unknown":     func(b *bench, e epoch.Epoch) { b.release("a", "L1", e, lease.Released, 2) },
		"caller gone": func(b *bench, e epoch.Epoch) { b.release("a", "L1", e, lease.CallerGone, 0) },
		"expiry":      func(b *bench, _ epoch.Epoch) { b.passes(ttl + lockDelay); b.beats("b", 0) },
		"close": func(b *bench, _ epoch.Epoch) {
			b.takes(lease.Close(b.facts, b.c.Sessions["a"], "a"))
		},
		"force and applied": func(b *bench, e epoch.Epoch) { b.force(e, false); b.beats("a", 0) },
		"force and receipt": func(b *bench, e epoch.Epoch) {
			b.force(e, false)
			b.release("a", "L1", e, lease.Released, 0)
		},
		"force and time": func(b *bench, e epoch.Epoch) {
			b.force(e, false)
			b.passes(ttl + lockDelay)
			b.beats("a", 1)
			b.beats("b", 0)
		},
		"max hold": func(b *bench, _ epoch.Epoch) {
			b.passes(10 * time.Second)
			b.settle()
			b.beats("a", 0)
			b.beats("b", 0)
		},
		"session replaced": func(b *bench, _ epoch.Epoch) {
			b.passes(ttl + lockDelay)
			b.register(registration("a", "a2", "other"))
			b.beats("b", 0)
		},
		"generation raised": func(b *bench, e epoch.Epoch) {
			b.facts.Generation++
			b.release("a", "L1", e, lease.Released, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.pol.OnUncleanEnd = lease.FreeAfter
			if name == "max hold" {
				b.pol.MaxHold = 10 * time.Second
			}
			b.joins("a", "b")
			first := b.owns("a", "L1")
			leave(b, first)
			issued := b.c.Scope.Epoch
			require.GreaterOrEqual(t, issued, first)
			second := b.owns("b", "L2")
			require.Greater(t, second, issued)
			require.Equal(t, b.facts.Generation, second.Generation())
			require.Contains(t, b.ended, "L1")
		})
	}
}

func TestI3_WhatNamesAnOlderTermChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pol.OnUncleanEnd, b.pol.MaxHold = lease.FreeAfter, time.Hour
	b.joins("a", "b")
	old := b.owns("a", "L1")
	b.passes(ttl + lockDelay)
	b.beats("b", 0)
	b.owns("b", "L2")
	b.beats("a", 0) // alive again, and a stranger to the scope
	before := b.c

	require.Equal(t, lease.AlreadyEnded, b.release("a", "L1", old, lease.Released, 0).Code)
	require.Equal(t, lease.Lost, b.claim("a", "L1", old).Code)
	require.Equal(t, lease.Lost, b.takes(lease.Renew(b.facts, b.pol, b.c, b.ref("a", "L1", old), time.Minute)).Code)
	require.Equal(t, lease.WrongEpoch, b.force(old, true).Reason)
	stolen := b.ref("a", "L2", b.c.Scope.Epoch)
	require.Equal(t, lease.Lost, b.takes(lease.Claim(b.facts, b.pol, b.c, stolen)).Code, "another session's lease")
	require.Equal(t, before, b.c)
}

func TestFC02_LateRenewalCannotStealBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pol.OnUncleanEnd = lease.FreeAfter
	b.joins("a", "b")
	b.owns("a", "L1")
	b.passes(ttl + lockDelay)
	b.beats("b", 0)
	taken := b.owns("b", "L2")
	got := b.beats("a", 0)
	require.Equal(t, lease.Renewed, got.Code, "the session lives again")
	require.Len(t, b.c.Leases, 1, "what somebody ended stays ended")
	require.Equal(t, "L2", b.c.Leases[0].ID)
	require.Equal(t, taken, b.c.Scope.Epoch)
	require.Equal(t, lease.Expired, b.ended["L1"].EndReason)
	require.Equal(t, uint64(3), got.Version.Version, "and the sidecar is told that its set changed")
}

func TestFC02_HeartbeatCreatesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.joins("a")
	s := b.c.Sessions["a"]
	_, got := lease.Heartbeat(b.facts, s, lease.Beat{Session: "a", Nonce: "of another process"})
	require.Equal(t, lease.WrongNonce, got.Reason)
	s.End = lease.SessionReplaced
	after, got := lease.Heartbeat(b.facts, s, lease.Beat{Session: "a", Nonce: "a"})
	require.Equal(t, lease.SessionEnded, got.Reason)
	require.Equal(t, s, after)
}

func TestFC03_RenewalIsIdempotentAndKeepsTheEpoch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pol.MaxHold = time.Minute
	b.joins("a")
	e := b.owns("a", "L1")
	for range 10 { // ten answers lost in a row
		b.passes(5 * time.Second)
		require.Equal(t, lease.Renewed, b.beats("a", 0).Code)
		got := b.takes(lease.Renew(b.facts, b.pol, b.c, b.ref("a", "L1", e), 20*time.Second))
		require.Equal(t, lease.Renewed, got.Code)
		require.Equal(t, e, got.Epoch)
	}
	require.Equal(t, e, b.c.Scope.Epoch)
	until := b.c.Leases[0].MaxUntil
	require.Equal(t, b.c.Leases[0].AcquiredAt.Add(time.Minute), until, "never beyond the policy's longest hold")
	b.takes(lease.Renew(b.facts, b.pol, b.c, b.ref("a", "L1", e), time.Second))
	require.Equal(t, until, b.c.Leases[0].MaxUntil, "a delayed renewal shortens nothing")
}

func TestFC08_ExpiredLeaseBlocksNobodyWithoutASweeper(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pol.OnUncleanEnd = lease.FreeAfter
	b.joins("a", "b")
	b.owns("a", "L1")
	b.passes(ttl + lockDelay - time.Microsecond)
	b.beats("b", 0)
	require.Equal(t, lease.Busy, b.acquire("b", "L2").Code, "not before the lock delay is over")
	b.passes(time.Microsecond)
	require.Equal(t, lease.Acquired, b.acquire("b", "L2").Code)
}

func TestFC10_ReleaseOfAnOldLeaseLeavesTheNewOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.joins("a")
	old := b.owns("a", "L1")
	require.Equal(t, lease.Done, b.release("a", "L1", old, lease.Released, 0).Code)
	fresh := b.owns("a", "L2")
	for range 3 {
		got := b.release("a", "L1", old, lease.Released, 0)
		require.Equal(t, lease.AlreadyEnded, got.Code)
		require.Contains(t, got.Detail, "L1")
	}
	require.Equal(t, lease.AlreadyEnded, b.release("a", "L2", old, lease.Released, 0).Code, "the epoch counts too")
	require.Equal(t, lease.Live, b.c.Leases[0].State)
	require.Equal(t, fresh, b.c.Leases[0].Epoch)
}

func TestFC15_UnclaimedGrantGoesBackAsFree(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.joins("a", "b")
	e := b.acquire("a", "L1").Epoch
	b.passes(b.pol.ClaimTimeout + lockDelay)
	b.beats("a", 0)
	b.beats("b", 0)
	require.Equal(t, lease.Acquired, b.acquire("b", "L2").Code, "free whatever the policy: nothing ran under it")
	require.Equal(t, lease.Unclaimed, b.ended["L1"].EndReason)
	require.Equal(t, lease.Lost, b.claim("a", "L1", e).Code)
}

func TestFC92_ReplayedAndLateClaimsExtendNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.joins("a")
	e := b.acquire("a", "L1").Epoch
	first := b.claim("a", "L1", e)
	require.Equal(t, ttl, first.Remaining)
	b.passes(4 * time.Second)
	again := b.claim("a", "L1", e)
	require.Equal(t, lease.Claimed, again.Code)
	require.Equal(t, ttl-4*time.Second, again.Remaining, "a claim renews nothing")
	require.Equal(t, first.Version, again.Version)
	b.release("a", "L1", e, lease.Released, 0)
	require.Equal(t, lease.Lost, b.claim("a", "L1", e).Code)
	require.Zero(t, b.acquire("a", "L2").Remaining, "a grant carries no duration")
}

func TestFC100_WhoActsOnAnExpiryEndsIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pol.OnUncleanEnd = lease.FreeAfter
	b.joins("a", "b")
	b.owns("a", "L1")
	b.passes(ttl + lockDelay)
	b.beats("b", 0)
	b.acquire("b", "L2")
	require.Equal(t, lease.Expired, b.ended["L1"].EndReason, "in the same Change as the grant")
	b.beats("a", 0)
	require.Len(t, b.c.Leases, 1)
}

func TestExpiredSessionThatNobodyActedUponLivesOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.joins("a")
	e := b.owns("a", "L1")
	b.passes(ttl + time.Hour)
	require.Equal(t, lease.SessionExpired, b.claim("a", "L1", e).Reason, "it needs a heartbeat first")
	b.beats("a", 0)
	require.Equal(t, lease.Claimed, b.claim("a", "L1", e).Code)
}
