package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
)

func TestFC24_ClockStepsMakeNoSecondOwnerAndNoMassLoss(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{time.Hour, -time.Hour, 20 * time.Second, -20 * time.Second} {
		t.Run(step.String(), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.pol.OnUncleanEnd = lease.FreeAfter
			b.joins("a", "b")
			b.owns("a", "L1")
			b.steps(step)
			for range 5 {
				b.pauses(3 * time.Second)
				b.beats("a", 0)
				b.beats("b", 0)
				b.settle()
				require.Equal(t, lease.Busy, b.acquire("b", "L2").Code)
			}
			b.pauses(time.Hour)
			b.beats("a", 0)
			b.beats("b", 0)
			require.Equal(t, lease.Busy, b.acquire("b", "L2").Code, "a lives: nothing was lost")
		})
	}
}

func TestFC101_AfterAStepTheDeadAreGivenUpWithinTheirTTL(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		b := setup(t)
		b.pol.OnUncleanEnd = lease.FreeAfter
		b.joins("a", "b")
		b.owns("a", "L1")
		b.steps(step) // and a is dead
		b.pauses(ttl + lockDelay - time.Microsecond)
		b.beats("b", 0)
		require.Equal(t, lease.Busy, b.acquire("b", "L2").Code, step)
		require.Equal(t, lease.Wait, b.register(registration("a", "a2", "next")).Code, step)
		b.pauses(time.Microsecond)
		b.beats("b", 0)
		require.Equal(t, lease.Acquired, b.acquire("b", "L2").Code, "no hour of standstill after a step of %s", step)
	}
}

// A step below a quarter of the lock delay begins no pause. With a session at
// the longest ttl it once made a deadline look further away than any can be,
// and so as passed.
func TestFC24_StepTooSmallToBeNoticedEndsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pol.OnUncleanEnd = lease.FreeAfter
	b.joins("b")
	long := registration("a", "a", "a")
	long.TTL = maxTTL
	b.register(long)
	e := b.owns("a", "L1")
	b.passes(-lockDelay / 4)
	require.True(t, b.facts.Alive(b.c.Sessions["a"]))
	require.Equal(t, lease.Busy, b.acquire("b", "L2").Code)
	b.force(e, false)
	require.Equal(t, lease.Busy, b.acquire("b", "L3").Code, "nor does a drain end by it")
	require.Equal(t, lease.Draining, b.c.Leases[0].State)
}

func TestFC24_GrantIsNotUnclaimedByASmallStep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.joins("a")
	e := b.acquire("a", "L1").Epoch
	b.passes(-lockDelay / 4)
	require.Equal(t, lease.Claimed, b.claim("a", "L1", e).Code)
}

func TestLowerMaxTTLOfANewConfigurationEndsNoSession(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.pol.OnUncleanEnd = lease.FreeAfter
	b.joins("b")
	long := registration("a", "a", "a")
	long.TTL = maxTTL
	b.register(long)
	b.owns("a", "L1")
	b.facts.MaxTTL = ttl
	b.beats("a", 0)
	require.True(t, b.facts.Alive(b.c.Sessions["a"]))
	require.Equal(t, lease.Busy, b.acquire("b", "L2").Code)
}

func TestFC98_AfterACutNobodyIsGrantedBeforeTheLongestTTL(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.joins("a")
	b.facts.Generation++
	b.facts.Pause = lease.Pause{Whole: true}
	got := b.acquire("a", "L1")
	require.Equal(t, lease.Busy, got.Code, "who held it in the lost history may still act")
	require.Equal(t, lease.HistoryCut, got.Reason)
	require.Equal(t, maxTTL+lockDelay, got.RetryAfter)
	b.pauses(maxTTL + lockDelay)
	b.beats("a", 0)
	require.Equal(t, lease.Acquired, b.acquire("a", "L1").Code)
}

func TestDrainDuringAPauseWaitsForItsEnd(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		b := setup(t)
		b.pol.OnUncleanEnd = lease.FreeAfter
		b.joins("a", "b")
		e := b.owns("a", "L1")
		b.steps(step)
		b.beats("b", 0)
		b.force(e, false)
		b.pauses(ttl + lockDelay - time.Microsecond)
		b.beats("b", 0)
		require.Equal(t, lease.Busy, b.acquire("b", "L2").Code, step)
		b.pauses(time.Microsecond)
		require.Equal(t, lease.Acquired, b.acquire("b", "L2").Code, step)
	}
}

func TestFC97_SecondRestoreOfOneDumpStillComesOutHigher(t *testing.T) {
	t.Parallel()
	const dumped = epoch.Generation(40000)
	first, err := epoch.Raise(dumped, 0, start)
	require.NoError(t, err)
	require.Greater(t, first, dumped)
	second, err := epoch.Raise(dumped, 0, start.Add(5*time.Minute))
	require.NoError(t, err)
	require.Greater(t, second, first)
	witnessed, err := epoch.Raise(dumped, second, start)
	require.NoError(t, err)
	require.Greater(t, witnessed, second, "within the five minutes a receipt decides")
}
