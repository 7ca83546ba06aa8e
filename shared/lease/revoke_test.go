package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/forgeyard/concurrency/shared/lease"
)

func (b *bench) revoke(node string) lease.Answer {
	b.t.Helper()
	var open *lease.Session
	for _, s := range b.c.Sessions {
		if s.Node == node && s.End == lease.SessionOpen {
			open = &s
		}
	}
	return b.takes(lease.Revoke(b.facts, open, lease.RevokeRequest{Node: node, Actor: "person:eve", Reason: "stolen"}))
}

func TestARevokedNodeDrainsUntilTheTimeThatItTrusts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pol.OnUncleanEnd = lease.FreeAfter
	b.joins("a", "b")
	b.owns("a", "L1")
	b.passes(5 * time.Second)
	b.beats("a", 0)
	b.passes(time.Second)
	got := b.revoke("a")
	require.Equal(t, lease.Done, got.Code)
	require.Equal(t, ttl-time.Second+lockDelay, got.RetryAfter)
	_, late := lease.Heartbeat(b.facts, b.c.Sessions["a"], lease.Beat{Session: "a", Nonce: "a"})
	require.Equal(t, lease.NodeRevoked, late.Reason)
	require.Contains(t, late.Detail, "revoked")
	require.Equal(t, lease.AlreadyEnded, b.revoke("a").Code)

	b.settle()
	require.Equal(t, lease.Draining, b.c.Leases[0].State)
	require.Equal(t, lease.Revoked, b.c.Leases[0].EndReason)
	b.passes(got.RetryAfter - time.Millisecond)
	b.beats("b", 0)
	require.Equal(t, lease.Busy, b.acquire("b", "L2").Code)
	b.passes(time.Millisecond)
	require.Equal(t, lease.Acquired, b.acquire("b", "L3").Code)
	require.Equal(t, lease.Revoked, b.ended["L1"].EndReason)
}

// A revoked node that left effects behind blocks a scope whose policy says so,
// like every unclean end (I6).
func TestI6_ARevokedHolderBlocksAReconcilingScope(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.joins("a", "b")
	b.owns("a", "L1")
	b.passes(ttl + lockDelay)
	b.revoke("a")
	b.settle()
	require.Equal(t, lease.Ended, b.ended["L1"].State, "silent already: nothing to wait for")
	require.Equal(t, lease.Blocked, b.c.Scope.State)
	require.Contains(t, b.c.Scope.Reason, "revoked")
}

// Whatever is done in whatever order: what a process may trust when its node is
// revoked has run out before anybody else is granted, and not much later
// somebody is.
func TestI1_RevocationNeverGrantsWithinTheHoldersTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		b := setup(t)
		b.pol.OnUncleanEnd = lease.FreeAfter
		b.joins("a", "b")
		b.owns("a", "L1")
		trusted, revoked := b.facts.Now.Add(ttl), false // from the sending of the last confirmed heartbeat
		step := func(name string) {
			switch name {
			case "beat":
				s := b.c.Sessions["a"]
				if next, a := lease.Heartbeat(b.facts, s, lease.Beat{Session: "a", Nonce: "a"}); a.Code == lease.Renewed {
					b.takes(lease.Change{Sessions: []lease.Session{next}}, a)
					trusted = b.facts.Now.Add(ttl)
					require.False(r, revoked, "renewed after the revocation")
				}
			case "revoke":
				b.revoke("a")
				revoked = true
			case "settle":
				b.settle()
			case "pass":
				b.passes(time.Duration(rapid.IntRange(1, 6000).Draw(r, "ms")) * time.Millisecond)
			}
		}
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			step(rapid.SampledFrom([]string{"beat", "revoke", "settle", "pass"}).Draw(r, "step"))
			b.beats("b", 0)
			if a := b.acquire("b", "L2"); a.Code == lease.Acquired {
				require.False(r, b.facts.Now.Before(trusted.Add(lockDelay)), "granted while the holder trusts its lease")
				return
			}
		}
		step("revoke")
		b.settle()
		b.passes(ttl + lockDelay)
		b.beats("b", 0)
		require.Equal(r, lease.Acquired, b.acquire("b", "L2").Code)
	})
}
