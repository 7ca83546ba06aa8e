package keeper_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/sidecar/gate"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// TestFC24_AStepIsUncertainAtOnceUntilConfirmed, in both directions; what is
// below the tolerance is an ordinary correction.
func TestFC24_AStepIsUncertainAtOnceUntilConfirmed(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]time.Duration{"forward": time.Hour, "back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			key, l := b.own(b.request())
			b.clock.StepWall(step)
			b.keeper.CompareClocks() // no timer has fired
			require.Equal(t, ownership.ClockEvent, b.until(key, ownership.Uncertain).Reason)
			b.refused(key, gate.CodeUncertain)
			b.beat()
			require.Equal(t, l.Epoch, b.until(key, ownership.Owned).Epoch)
			b.clock.StepWall(50 * time.Millisecond)
			b.keeper.CompareClocks()
			b.turn()
			require.Equal(t, ownership.Owned, b.term(key).State)
		})
	}
}

// TestFC22_AWakeUpIsUncertainAtOnceUntilConfirmed: boottime went on, the timers
// stood still.
func TestFC22_AWakeUpIsUncertainAtOnceUntilConfirmed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, l := b.own(b.request())
	b.clock.Sleep(2 * time.Second)
	b.keeper.CompareClocks()
	require.Contains(t, b.until(key, ownership.Uncertain).Detail, "slept for 2s")
	b.refused(key, gate.CodeUncertain)
	b.beat()
	require.Equal(t, l.Epoch, b.until(key, ownership.Owned).Epoch)
}

// TestFC22_AnotherBootTrustsNothing: instants of the former one mean nothing,
// and nothing of its holds is left but what may be owed.
func TestFC22_AnotherBootTrustsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, l := b.own(b.request())
	b.stored()
	b.stop()
	b.boot = "boot-2"
	b.start()
	b.refused(key, gate.CodeNoHold)
	b.returned(expired(l))
	require.Zero(t, b.link.next(accounts).command.Account.Unknown)
	b.refused(key, gate.CodeNoHold)
}
