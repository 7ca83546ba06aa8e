package clock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/clock/clocktest"
)

func TestSystemBoottimeRunsAtLeastAsFarAsMonotonic(t *testing.T) { // not parallel: it counts allocations
	c := clock.System()
	mono := c.Mono()
	require.GreaterOrEqual(t, int64(c.Boot()), int64(mono))
	require.Zero(t, testing.AllocsPerRun(100, func() { c.Boot() }))
	id, err := clock.BootID()
	require.NoError(t, err)
	require.Len(t, id, 36)
}

func TestManualSleepMovesBoottimeButFiresNoTimer(t *testing.T) {
	t.Parallel()
	m := clocktest.New(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	timer := m.NewTimer(time.Second)
	boot, mono := m.Boot(), m.Mono()
	m.Sleep(time.Hour)
	require.Equal(t, time.Hour, m.Boot().Sub(boot))
	require.Equal(t, mono, m.Mono())
	select {
	case <-timer.C():
		t.Fatal("a timer fired while the machine slept")
	default:
	}
	m.Advance(time.Second)
	<-timer.C()
}
