package keeper

import (
	"time"

	"github.com/forgeyard/concurrency/shared/clock"
)

// Tolerances of the comparison of clocks between two wake-ups of the loop.
const (
	sleepTolerance = 100 * time.Millisecond
	stepTolerance  = 500 * time.Millisecond
)

// clocks is the last reading of the clocks against boottime (DESIGN 4.5).
type clocks struct {
	boot, mono time.Duration
	wall       time.Time
	width      time.Duration // of boottime between the first and the last clock that was read
}

// A process that is set aside between the reading of two clocks sees them part
// although they did not: the closest of a few readings is taken.
const (
	closeEnough  = 2 * time.Millisecond
	mostReadings = 5
)

func readClocks(c clock.Clock) clocks {
	best := readOnce(c)
	for n := 1; best.width > closeEnough && n < mostReadings; n++ {
		if again := readOnce(c); again.width < best.width {
			best = again
		}
	}
	return best
}

func readOnce(c clock.Clock) clocks {
	read := clocks{boot: time.Duration(c.Boot()), mono: c.Mono(), wall: c.Now()}
	read.width = time.Duration(c.Boot()) - read.boot
	return read
}

// compare names what happened between the last reading and now; empty when
// the clocks went on together.
func (c *clocks) compare(source clock.Clock) string {
	last, now := *c, readClocks(source)
	*c = now
	passed, unknown := now.boot-last.boot, now.width+last.width
	if slept := passed - (now.mono - last.mono); slept > sleepTolerance+unknown {
		return "the machine slept for " + slept.Round(time.Millisecond).String()
	}
	// Round strips Go's own monotonic reading, which would hide a step.
	if step := now.wall.Round(0).Sub(last.wall.Round(0)) - passed; step > stepTolerance+unknown || step < -stepTolerance-unknown {
		return "the wall clock was stepped by " + step.Round(time.Millisecond).String()
	}
	return ""
}

// CompareClocks makes the loop look at the clocks now instead of at its next
// timer, which stands still while the machine sleeps.
func (k *Keeper) CompareClocks() { k.post(func() {}) }
