package lease

import (
	"math"
	"time"

	"github.com/forgeyard/concurrency/shared/epoch"
)

// Facts are what a transaction knows besides the records of a scope. All of
// them were read under its locks; Now was read last.
type Facts struct {
	Now        time.Time        // the store's clock
	Generation epoch.Generation // read in a statement after the scope locks (FC-94)
	Pause      Pause
	MaxTTL     time.Duration // the longest ttl that any session of this authority may have
	LockDelay  time.Duration // for decisions on sessions as such
	Switchover bool          // a planned change of the database is under way: nothing is granted
}

// Pause is the state of this replica's time pause (DESIGN 4.2).
type Pause struct {
	Elapsed time.Duration // boottime of the replica since the last pause began
	Whole   bool          // after a cut of history: max ttl for every session
}

// NoPause is a pause that ended long ago.
func NoPause() Pause { return Pause{Elapsed: math.MaxInt64} }

// timeDecides reports whether the passing of time may end or start anything of
// a session with this ttl.
func (f Facts) timeDecides(ttl, lockDelay time.Duration) bool {
	return f.pauseLeft(ttl, lockDelay) == 0
}

// pauseLeft is how long the time pause still holds for a session with this
// ttl.
func (f Facts) pauseLeft(ttl, lockDelay time.Duration) time.Duration {
	if f.Pause.Whole {
		ttl = max(ttl, f.MaxTTL)
	}
	return max(ttl+lockDelay-f.Pause.Elapsed, 0)
}

// delay is the lock delay that holds for a scope. Sidecars build their budget
// on the authority's, so no policy goes below it.
func (f Facts) delay(p Policy) time.Duration { return max(p.LockDelay, f.LockDelay) }

// span is the longest time ahead that a deadline of s can lie. A session may
// have been opened under a longer MaxTTL than today's. The lock delay is added
// because a step of the clock by less than a quarter of it begins no pause:
// without it, a step back by a moment would end the session of a live process.
func (f Facts) span(s Session) time.Duration { return max(f.MaxTTL, s.TTL) + f.LockDelay }

// pending reports whether a deadline, set at most span ahead, lies in the
// future. One further ahead than span was set by a clock since stepped back.
func (f Facts) pending(deadline time.Time, span time.Duration) bool {
	left := deadline.Sub(f.Now)
	return left > 0 && left <= span
}

// Alive reports whether s may act: 0 < expires_at - now <= max ttl plus what
// the clock may have been stepped back unnoticed, and nobody ended it
// (DESIGN 3, Session 2).
func (f Facts) Alive(s Session) bool {
	return s.End == SessionOpen && f.pending(s.ExpiresAt, f.span(s))
}

// Remaining is how long the authority will still count s as alive; zero when
// it is not. It is what answers carry, never a deadline (DESIGN 4.3).
func (f Facts) Remaining(s Session) time.Duration {
	if !f.Alive(s) {
		return 0
	}
	return min(s.ExpiresAt.Sub(f.Now), s.TTL)
}

// silent reports whether the process behind s can no longer act: it closed
// itself, or its time and the lock delay have passed and time may decide.
func (f Facts) silent(s Session, lockDelay time.Duration) bool {
	if s.End == SessionClosed {
		return true
	}
	return f.timeDecides(s.TTL, lockDelay) && !f.pending(s.ExpiresAt.Add(lockDelay), f.span(s)+lockDelay)
}
