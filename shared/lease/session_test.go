package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/lease"
)

func resume(of lease.Session, nonce string) lease.RegisterRequest {
	r := registration(of.Node, "fresh-"+nonce, nonce)
	r.Resume, r.ResumeNonce = of.ID, of.Nonce
	return r
}

func TestFC06_SecondLiveInstanceIsAConflictNotATakeover(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.joins("a")
	e := b.owns("a", "L1")
	second := registration("a", "a2", "second")
	got := b.register(second)
	require.Equal(t, lease.Wait, got.Code)
	require.Equal(t, lease.NodeConflict, got.Reason)
	require.Equal(t, ttl+lockDelay, got.RetryAfter)
	require.Contains(t, got.Detail, "node a")
	for range 4 { // the first one lives on: the second one waits for ever
		b.passes(ttl)
		b.beats("a", 0)
		require.Equal(t, lease.Wait, b.register(second).Code)
	}
	require.Equal(t, lease.Claimed, b.claim("a", "L1", e).Code)
	b.passes(ttl + lockDelay)
	require.Equal(t, lease.Registered, b.register(second).Code)
	require.Equal(t, lease.SessionReplaced, b.c.Sessions["a"].End)
	_, late := lease.Heartbeat(b.facts, b.c.Sessions["a"], lease.Beat{Session: "a", Nonce: "a"})
	require.Equal(t, lease.SessionEnded, late.Reason)
}

func TestFC99_ResumeNeedsTheSameBootAndTheSameLockedFile(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*lease.RegisterRequest){
		"copied directory": func(r *lease.RegisterRequest) { r.LockFile.Inode++ },
		"other device":     func(r *lease.RegisterRequest) { r.LockFile.Device++ },
		"reboot":           func(r *lease.RegisterRequest) { r.BootID = "next" },
		"older copy":       func(r *lease.RegisterRequest) { r.ResumeNonce = "before" },
		"damaged cache":    func(r *lease.RegisterRequest) { r.Resume = "" },
		"other ttl":        func(r *lease.RegisterRequest) { r.TTL = 2 * ttl },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.joins("a")
			r := resume(b.c.Sessions["a"], "second")
			change(&r)
			require.Equal(t, lease.Wait, b.register(r).Code)
			require.Equal(t, "a", b.c.Sessions["a"].Nonce)
			b.passes(ttl + lockDelay)
			require.Equal(t, lease.Registered, b.register(r).Code)
		})
	}
}

func TestFC99_NoLockFileProvesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := registration("a", "a", "a")
	first.LockFile = lease.LockFile{}
	b.register(first)
	again := resume(b.c.Sessions["a"], "second")
	again.LockFile = lease.LockFile{}
	require.Equal(t, lease.Wait, b.register(again).Code)
}

func TestResumeKeepsTheLeasesAndSilencesTheFormerProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.joins("a")
	e := b.owns("a", "L1")
	b.beats("a", 0)
	r := resume(b.c.Sessions["a"], "second")
	got := b.register(r)
	require.Equal(t, lease.Resumed, got.Code)
	require.Equal(t, "a", got.Session.ID)
	require.Zero(t, b.c.Sessions["a"].Applied, "the new process has applied nothing")
	require.Equal(t, lease.Resumed, b.register(r).Code, "a repeat is answered alike")

	old := lease.Ref{Session: "a", Nonce: "a", Lease: "L1", Epoch: e}
	_, a := lease.Release(b.facts, b.pol, b.c, lease.ReleaseRequest{Ref: old, Why: lease.Released})
	require.Equal(t, lease.WrongNonce, a.Reason)
	_, a = lease.Claim(b.facts, b.pol, b.c, old)
	require.Equal(t, lease.WrongNonce, a.Reason)
	_, a = lease.Close(b.facts, b.c.Sessions["a"], "a")
	require.Equal(t, lease.WrongNonce, a.Reason)
	require.Equal(t, lease.Claimed, b.claim("a", "L1", e).Code, "same epoch, new process")
	late := resume(lease.Session{ID: "a", Node: "a", Nonce: "a"}, "third")
	require.Equal(t, lease.Wait, b.register(late).Code, "a nonce is resumed once")
}

func TestResumeWhileALeaseDrains(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pol.OnUncleanEnd = lease.FreeAfter
	b.joins("a", "b")
	e := b.owns("a", "L1")
	b.force(e, false)
	require.Equal(t, lease.Resumed, b.register(resume(b.c.Sessions["a"], "second")).Code)
	require.Equal(t, lease.Busy, b.acquire("b", "L2").Code, "the new process has not said anything yet")
	b.beats("a", 0)
	require.Equal(t, lease.Acquired, b.acquire("b", "L3").Code)
}

func TestSessionReplacedWhileALeaseDrains(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pol.OnUncleanEnd, b.pol.LockDelay = lease.FreeAfter, 20*time.Second
	b.joins("a", "b")
	b.force(b.owns("a", "L1"), false)
	b.passes(ttl + lockDelay)
	b.beats("b", 0)
	require.Equal(t, lease.Registered, b.register(registration("a", "a2", "other")).Code)
	require.Equal(t, lease.Busy, b.acquire("b", "L2").Code, "the scope's own lock delay holds on")
	b.passes(20*time.Second - lockDelay)
	b.beats("b", 0)
	require.Equal(t, lease.Acquired, b.acquire("b", "L3").Code)
	require.Equal(t, lease.ForceReleased, b.ended["L1"].EndReason, "the first reason stands")
}

func TestTTLOfTheSessionMustLieInsideTheScopesBounds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.joins("a")
	b.pol.MaxTTL = ttl - time.Second
	got := b.acquire("a", "L1")
	require.Equal(t, lease.TTLOutOfBounds, got.Reason)
	require.Equal(t, "session ttl 15s: the scope allows 2s to 14s", got.Detail)
	b.pol.MaxTTL, b.pol.Requirement = maxTTL, lease.Capacity
	require.Equal(t, lease.UnsupportedPolicy, b.acquire("a", "L1").Reason)
}

func TestCloseMakesEverythingFreeAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pol.OnUncleanEnd = lease.FreeAfter
	b.joins("a", "b")
	b.owns("a", "L1")
	require.Equal(t, lease.Done, b.takes(lease.Close(b.facts, b.c.Sessions["a"], "a")).Code)
	require.Equal(t, lease.AlreadyEnded, b.takes(lease.Close(b.facts, b.c.Sessions["a"], "a")).Code)
	require.Equal(t, lease.Acquired, b.acquire("b", "L2").Code)
	require.Contains(t, b.ended["L1"].EndDetail, "closed without releasing")
	require.Equal(t, lease.Registered, b.register(registration("a", "a2", "next")).Code, "and the node may come back at once")
}
