package keeper

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/clock/clocktest"
)

// preempted is set aside between the readings of two clocks, so many times.
type preempted struct {
	*clocktest.Manual
	times int
}

// Mono implements clock.Clock.
func (p *preempted) Mono() time.Duration {
	if p.times > 0 {
		p.times--
		p.Advance(150 * time.Millisecond)
	}
	return p.Manual.Mono()
}

// On a loaded machine a process is set aside anywhere. That is no clock event,
// and hides none.
func TestBeingSetAsideBetweenTwoReadingsIsNoSleep(t *testing.T) {
	t.Parallel()
	for _, times := range []int{0, 1, mostReadings, 10 * mostReadings} {
		p := &preempted{Manual: clocktest.New(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))}
		c := readClocks(p)
		for range 3 {
			p.Advance(time.Second)
			p.times = times
			require.Empty(t, c.compare(p), "set aside %d times", times)
			p.times = 0
			p.Advance(time.Second)
			require.Empty(t, c.compare(p), "after being set aside %d times", times)
		}
		p.times = times
		p.Sleep(time.Second)
		require.Contains(t, c.compare(p), "slept", "set aside %d times", times)
		p.times = times
		p.StepWall(time.Minute)
		require.Contains(t, c.compare(p), "stepped", "set aside %d times", times)
	}
}
