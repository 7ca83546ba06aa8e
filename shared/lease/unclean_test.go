package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
)

func TestI6_UncleanEndsCloseTheScopeWhereThePolicySaysSo(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		leave   func(*bench, epoch.Epoch)
		blocked bool
	}{
		{"released, nothing unknown", func(b *bench, e epoch.Epoch) { b.release("a", "L1", e, lease.Released, 0) }, false},
		{"released, two unknown", func(b *bench, e epoch.Epoch) { b.release("a", "L1", e, lease.Released, 2) }, true},
		{"caller gone, every call answered", func(b *bench, e epoch.Epoch) { b.release("a", "L1", e, lease.CallerGone, 0) }, false},
		{"caller gone, one unknown", func(b *bench, e epoch.Epoch) { b.release("a", "L1", e, lease.CallerGone, 1) }, true},
		{"expired", func(b *bench, _ epoch.Epoch) { b.passes(ttl + lockDelay); b.settle() }, true},
		{"forced, receipt", func(b *bench, e epoch.Epoch) { b.force(e, false); b.release("a", "L1", e, lease.Released, 0) }, false},
		{"forced, applied only", func(b *bench, e epoch.Epoch) { b.force(e, false); b.beats("a", 0); b.settle() }, true},
		{"forced and accepted", func(b *bench, e epoch.Epoch) { b.force(e, true); b.beats("a", 0); b.settle() }, false},
		{"forced, then accepted", func(b *bench, e epoch.Epoch) {
			b.force(e, false)
			require.Equal(b.t, lease.IsDraining, b.force(e, true).Code)
			b.beats("a", 0)
			b.settle()
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, onEnd := range []lease.OnUncleanEnd{lease.ReconcileAfter, lease.CleanAfter, lease.FreeAfter} {
				b := setup(t)
				b.pol.OnUncleanEnd = onEnd
				b.joins("a", "b")
				tc.leave(b, b.owns("a", "L1"))
				require.Empty(t, b.c.Leases)
				b.beats("b", 0)
				blocked := tc.blocked && onEnd != lease.FreeAfter
				require.Equal(t, blocked, b.c.Scope.State == lease.Blocked, string(onEnd))
				want := lease.Acquired
				if blocked {
					want = lease.Rejected
				}
				require.Equal(t, want, b.acquire("b", "L2").Code)
			}
		})
	}
}

func TestI6_BlockedScopeAdmitsWhoComesToLook(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.joins("a", "b")
	e := b.owns("a", "L1")
	b.release("a", "L1", e, lease.CallerGone, 1)
	got := b.acquire("b", "L2")
	require.Equal(t, lease.ScopeBlocked, got.Reason)
	require.Contains(t, got.Detail, "caller-gone")
	ask := func(p lease.Purpose) lease.Answer {
		_, a := lease.Acquire(b.facts, b.pol, b.c, lease.AcquireRequest{Session: "b", Nonce: "b", LeaseID: "L3", Purpose: p})
		return a
	}
	require.Equal(t, lease.Acquired, ask(lease.Reconcile).Code)
	require.Equal(t, lease.ScopeBlocked, ask(lease.Clean).Reason)
	b.pol.OnUncleanEnd = lease.CleanAfter
	require.Equal(t, lease.Acquired, ask(lease.Clean).Code)
	b.c.Scope.State = lease.Quarantined
	require.Equal(t, lease.ScopeQuarantined, ask(lease.Reconcile).Reason)
}

func TestUnknownEffectsAreSaidInTheTombstone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pol.OnUncleanEnd = lease.FreeAfter
	b.joins("a")
	b.release("a", "L1", b.owns("a", "L1"), lease.CallerGone, 2)
	require.Equal(t, "ended with 2 unknown effects", b.ended["L1"].EndDetail)
	require.Equal(t, 2, b.ended["L1"].Unknown)
	require.Equal(t, lease.CallerGone, b.ended["L1"].EndReason)
}

func TestReleaseRefusesWhatAHolderMayNotSay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.joins("a")
	e := b.owns("a", "L1")
	require.Contains(t, b.release("a", "L1", e, lease.ForceReleased, 0).Detail, `why "force-released"`)
	require.Contains(t, b.release("a", "L1", e, lease.Released, -1).Detail, "unknown effects -1")
	require.Len(t, b.c.Leases, 1)
}

func TestFC84_ForceReleaseRepeatsAndConflicts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.joins("a", "b")
	e := b.owns("a", "L1")

	wrong := b.force(e+9, false)
	require.Equal(t, lease.WrongEpoch, wrong.Reason)
	require.Contains(t, wrong.Detail, "never issued")
	require.Equal(t, "L1", wrong.Holder.Lease)

	first := b.force(e, false)
	require.Equal(t, lease.IsDraining, first.Code)
	require.Equal(t, e+1, first.Epoch)
	for range 2 {
		again := b.force(e, false)
		require.Equal(t, lease.AlreadyEnded, again.Code)
		require.Equal(t, e+1, again.Epoch, "a repeat raises nothing")
	}
	require.Equal(t, lease.WrongEpoch, b.force(e+1, false).Reason, "the raised epoch is nobody's")

	b.beats("a", 0)
	b.settle()
	require.Equal(t, lease.Blocked, b.c.Scope.State)
	again := b.force(e, false)
	require.Equal(t, lease.AlreadyEnded, again.Code, "also when it has fully ended")
	require.Contains(t, again.Detail, string(lease.Blocked))
	require.Equal(t, lease.WrongEpoch, b.force(e, true).Reason, "reopening needs the epoch that is shown now")
	require.Equal(t, lease.ScopeBlocked, b.force(e+1, false).Reason)
	require.Equal(t, lease.Done, b.force(e+1, true).Code)
	require.Equal(t, lease.Open, b.c.Scope.State)
	require.Equal(t, lease.AlreadyEnded, b.force(e+1, true).Code)
	require.Equal(t, lease.WrongEpoch, b.force(e+9, true).Reason)
	require.Equal(t, lease.WrongEpoch, b.force(0, true).Reason)

	next := b.owns("b", "L2")
	require.Greater(t, next, e+2)
	late := b.force(e, false)
	require.Equal(t, lease.WrongEpoch, late.Reason, "somebody else holds it now")
	require.Equal(t, "L2", late.Holder.Lease)
	require.NotContains(t, late.Detail, "never issued")
}

func TestFC84_RefusedForceReleaseAcceptsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.joins("a")
	e := b.owns("a", "L1")
	b.passes(ttl + lockDelay)
	require.Equal(t, lease.WrongEpoch, b.force(e+1, true).Reason)
	require.Equal(t, lease.Blocked, b.c.Scope.State, "the expiry that it settled is judged by the policy")
	require.Equal(t, lease.Done, b.force(e, true).Code)
	require.Equal(t, lease.Open, b.c.Scope.State)
}

func TestForceReleaseOfAnUnclaimedGrantEndsItAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.joins("a", "b")
	e := b.acquire("a", "L1").Epoch
	require.Equal(t, lease.Done, b.force(e, false).Code)
	require.Equal(t, lease.Open, b.c.Scope.State)
	require.Equal(t, lease.Lost, b.claim("a", "L1", e).Code)
	require.Greater(t, b.owns("b", "L2"), e+1)
}

func TestFC27_EveryEndByOthersIsAuditedWithWhoAndWhy(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.joins("a")
	e := b.owns("a", "L1")
	b.force(e, false)
	b.passes(ttl + lockDelay)
	b.settle()
	b.force(b.c.Scope.Epoch, true)
	b.register(registration("a", "a2", "other"))
	var actions []string
	for _, a := range b.audit {
		actions = append(actions, a.Action)
		require.NotEmpty(t, a.Actor)
		require.NotEmpty(t, a.Reason)
		require.False(t, a.At.IsZero())
	}
	require.Equal(t, []string{"force-released", "lease-draining", "lease-force-released", "reopen-unreconciled", "session-replaced"}, actions)
	require.Equal(t, e, b.audit[0].Epoch)
	require.Equal(t, "person:eve", b.ended["L1"].EndedBy)
	require.Equal(t, "stuck since noon", b.ended["L1"].EndDetail)
}

func TestFC90_NobodyIsGrantedBeforeTheHolderIsSilent(t *testing.T) {
	t.Parallel()
	for name, silence := range map[string]func(*bench, epoch.Epoch){
		"receipt":     func(b *bench, e epoch.Epoch) { b.release("a", "L1", e, lease.Released, 0) },
		"applied set": func(b *bench, _ epoch.Epoch) { b.beats("a", 0) },
		"drain end":   func(b *bench, _ epoch.Epoch) { b.passes(ttl + lockDelay); b.beats("b", 0) },
		"closed":      func(b *bench, _ epoch.Epoch) { b.takes(lease.Close(b.facts, b.c.Sessions["a"], "a")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.pol.OnUncleanEnd = lease.FreeAfter
			b.joins("a", "b")
			e := b.owns("a", "L1")
			b.force(e, false)
			require.Equal(t, lease.Busy, b.acquire("b", "L2").Code)
			b.passes(time.Second)
			b.beats("a", 1) // has not seen the push
			require.Equal(t, lease.Busy, b.acquire("b", "L3").Code)
			b.facts.Now = start
			silence(b, e)
			require.Equal(t, lease.Acquired, b.acquire("b", "L4").Code)
		})
	}
}

func TestFC90_LaterHeartbeatsDoNotMoveTheDrain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pol.OnUncleanEnd = lease.FreeAfter
	b.joins("a", "b")
	e := b.owns("a", "L1")
	b.force(e, false)
	for range 5 {
		b.passes(3 * time.Second)
		b.beats("a", 1)
		b.beats("b", 0)
		require.Equal(t, lease.Busy, b.acquire("b", "L2").Code)
	}
	b.passes(lockDelay)
	require.Equal(t, lease.Acquired, b.acquire("b", "L2").Code)
}

func TestFC91_AppliedAheadOfTheRowIsNotBelieved(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.joins("a", "b")
	e := b.owns("a", "L1")
	s := b.c.Sessions["a"]
	ahead := s.Version(b.facts.Generation)
	ahead.Version += 5
	next, got := lease.Heartbeat(b.facts, s, lease.Beat{Session: "a", Nonce: "a", Applied: ahead})
	require.Equal(t, s.Applied, next.Applied)
	require.Equal(t, s.Version(b.facts.Generation), got.Version, "the answer names the row's version: a mismatch")
	b.takes(lease.Change{Sessions: []lease.Session{next}}, got)
	b.force(e, false)
	require.Equal(t, lease.Busy, b.acquire("b", "L2").Code, "it would have passed for applied")
	require.True(t, b.c.Sessions["a"].Applied.Before(b.c.Leases[0].DrainVersion))
}

func TestMaxHoldDrainsALiveButStuckHolder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pol.OnUncleanEnd, b.pol.MaxHold = lease.FreeAfter, 30*time.Second
	b.joins("a", "b")
	require.Equal(t, ttl, b.claim("a", "L1", b.acquire("a", "L1").Epoch).Remaining)
	b.passes(20 * time.Second)
	b.beats("a", 0)
	b.beats("b", 0)
	require.Equal(t, 10*time.Second, b.claim("a", "L1", b.c.Scope.Epoch).Remaining, "its own limit is nearer than the session's")
	b.passes(10 * time.Second)
	require.Equal(t, lease.Busy, b.acquire("b", "L2").Code)
	require.Equal(t, lease.MaxHold, b.c.Leases[0].EndReason)
	b.beats("a", 0)
	require.Equal(t, lease.Acquired, b.acquire("b", "L3").Code)
}
