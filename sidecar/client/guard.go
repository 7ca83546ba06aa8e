package client

import (
	"time"

	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// guard ends the hold at its deadline by this process' own clock: the sidecar
// may be dead, or we may have been stopped.
type guard struct {
	h      *Hold
	wake   chan boottime.Instant
	ending chan struct{}
}

func newGuard(h *Hold) *guard {
	g := &guard{h: h, wake: make(chan boottime.Instant, 1), ending: make(chan struct{})}
	go g.run()
	return g
}

// arm tells the guard a deadline; the latest counts.
func (g *guard) arm(at boottime.Instant) {
	select {
	case <-g.wake:
	default:
	}
	g.wake <- at
}

func (g *guard) stop() { close(g.ending) }

func (g *guard) run() {
	var deadline boottime.Instant
	timer := g.h.c.clock.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-g.ending:
			return
		case deadline = <-g.wake:
		case <-timer.C():
		}
		now := g.h.c.clock.Boot()
		if deadline != 0 && !now.Before(deadline) {
			g.h.end(ownership.Expired, "the hard deadline passed without a confirmation", nil)
			deadline = 0
		}
		next := time.Hour
		if deadline != 0 {
			next = deadline.Sub(now)
		}
		timer.Reset(next)
	}
}
