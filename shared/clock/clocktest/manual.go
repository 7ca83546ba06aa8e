package clocktest

import (
	"sync"
	"time"

	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/clock"
)

// Manual is a clock.Clock that moves only when told to.
type Manual struct {
	mu     sync.Mutex
	wall   time.Time
	boot   boottime.Instant
	mono   time.Duration
	timers map[*timer]bool
	armed  *sync.Cond
}

var _ clock.Clock = (*Manual)(nil)

// New starts at the given wall time, one hour after boot.
func New(start time.Time) *Manual {
	m := &Manual{wall: start, boot: boottime.Instant(time.Hour), mono: time.Hour, timers: map[*timer]bool{}}
	m.armed = sync.NewCond(&m.mu)
	return m
}

// Now implements clock.Clock.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wall
}

// Boot implements clock.Clock.
func (m *Manual) Boot() boottime.Instant {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.boot
}

// Mono implements clock.Clock.
func (m *Manual) Mono() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mono
}

// Advance lets d pass on every clock and fires the timers that come due.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wall, m.boot, m.mono = m.wall.Add(d), m.boot.Add(d), m.mono+d
	m.fireLocked()
}

// Sleep suspends the machine for d: wall and boottime go on, timers do not.
func (m *Manual) Sleep(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wall, m.boot = m.wall.Add(d), m.boot.Add(d)
}

// StepWall sets the wall clock by d, as a person or NTP does.
func (m *Manual) StepWall(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wall = m.wall.Add(d)
}

// WaitForTimers blocks until at least n timers are armed.
func (m *Manual) WaitForTimers(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.timers) < n {
		m.armed.Wait()
	}
}

// NewTimer implements clock.Clock.
func (m *Manual) NewTimer(d time.Duration) clock.Timer {
	t := &timer{m: m, c: make(chan time.Time, 1)}
	t.Reset(d)
	return t
}

func (m *Manual) fireLocked() {
	for t := range m.timers {
		if t.due <= m.mono {
			delete(m.timers, t)
			select {
			case t.c <- m.wall:
			default:
			}
		}
	}
}

type timer struct {
	m   *Manual
	c   chan time.Time
	due time.Duration
}

// C implements clock.Timer.
func (t *timer) C() <-chan time.Time { return t.c }

// Reset implements clock.Timer; like time.Timer's it drops a stale tick.
func (t *timer) Reset(d time.Duration) {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	select {
	case <-t.c:
	default:
	}
	t.due = t.m.mono + d
	t.m.timers[t] = true
	t.m.fireLocked()
	t.m.armed.Broadcast()
}

// Stop implements clock.Timer.
func (t *timer) Stop() {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	delete(t.m.timers, t)
	select {
	case <-t.c:
	default:
	}
}
