package storeclock

import (
	"time"

	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/lease"
)

// Cause says why a time pause began.
type Cause string

// The causes of DESIGN 4.2.
const (
	NoCause Cause = ""
	Start   Cause = "start"       // there was no pair yet
	Parted  Cause = "parted"      // the store's clock moved against boottime
	Stalled Cause = "stalled"     // this replica could commit nothing for an interval
	Cut     Cause = "history-cut" // another identity, or a verified witness ahead of the store
)

// Config holds the bounds; all are above zero.
type Config struct {
	LockDelay time.Duration
	Interval  time.Duration // longest time without a commit
	MaxTTL    time.Duration // length of a whole pause, without the lock delay
}

// Reading is one answer of the store's clock and the boottime before the
// question and after the answer.
type Reading struct {
	Store    time.Time
	Asked    boottime.Instant
	Answered boottime.Instant
}

// Watch is what one replica knows about the store's clock. It is a value: each
// step returns the next Watch.
type Watch struct {
	cfg Config

	seen      bool
	least     time.Duration // bounds of store clock minus boottime,
	most      time.Duration // as nanoseconds since their origins
	committed boottime.Instant
	read      boottime.Instant // the last reading
	crept     time.Duration    // what steps too small for a pause added up to

	pausedAt boottime.Instant
	whole    bool
}

// New returns a Watch that has seen nothing.
func New(cfg Config) Watch { return Watch{cfg: cfg} }

// Observe compares a reading with what was known. When it returns a cause, a
// time pause began at the reading.
func (w Watch) Observe(r Reading) (Watch, Cause) {
	least, most := w.bounds(r)
	if !w.seen {
		w.seen, w.least, w.most, w.committed, w.read = true, least, most, r.Answered, r.Answered
		return w.begin(r.Answered, w.whole), Start
	}
	w = w.creep(max(least-w.most, w.least-most, 0), r.Answered)
	w.least, w.most = narrow(w.least, w.most, least, most)
	switch {
	case w.crept > w.cfg.LockDelay/4:
		w.crept = 0
		return w.begin(r.Answered, w.stillWhole(r.Answered)), Parted
	case r.Answered.Sub(w.committed) > w.cfg.Interval:
		return w.begin(r.Answered, w.stillWhole(r.Answered)), Stalled
	}
	return w, NoCause
}

// creep adds up the steps that are each too small for a pause: a clock that is
// put forward a little every second would use up the lock delay unnoticed. What
// two clocks may slew apart, 8 %, is the budget's (DESIGN 4.6) and wears off.
func (w Watch) creep(gap time.Duration, at boottime.Instant) Watch {
	slew := max(at.Sub(w.read), 0) / 100 * 8
	w.crept, w.read = max(w.crept-slew, 0)+gap, max(w.read, at)
	return w
}

// Committed notes that a write of this replica was acknowledged at that time.
func (w Watch) Committed(at boottime.Instant) Watch {
	if w.committed.Before(at) {
		w.committed = at
	}
	return w
}

// HistoryCut begins a whole pause: nothing of any session is decided by time
// before the longest ttl has passed.
func (w Watch) HistoryCut(at boottime.Instant) Watch { return w.begin(at, true) }

// Pause is the state of the pause at that time, for the rules. Before the
// first reading time decides nothing.
func (w Watch) Pause(at boottime.Instant) lease.Pause {
	if !w.seen {
		return lease.Pause{Whole: true}
	}
	return lease.Pause{Elapsed: max(at.Sub(w.pausedAt), 0), Whole: w.stillWhole(at)}
}

// Remaining is how long the pause holds for the longest session; zero when it
// is over.
func (w Watch) Remaining(at boottime.Instant) time.Duration {
	whole := w.cfg.MaxTTL + w.cfg.LockDelay
	if !w.seen {
		return whole
	}
	return max(whole-at.Sub(w.pausedAt), 0)
}

// Now estimates the store's clock at that time, for people; the zero time
// before the first reading.
func (w Watch) Now(at boottime.Instant) time.Time {
	if !w.seen {
		return time.Time{}
	}
	return time.Unix(0, int64(w.least+(w.most-w.least)/2)+int64(at)).UTC()
}

// Silent is how long nothing was committed.
func (w Watch) Silent(at boottime.Instant) time.Duration { return at.Sub(w.committed) }

// Parting is the width of what is not known about the two clocks' difference.
func (w Watch) Parting() time.Duration { return w.most - w.least }

func (w Watch) begin(at boottime.Instant, whole bool) Watch {
	w.pausedAt, w.whole = at, whole
	return w
}

func (w Watch) stillWhole(at boottime.Instant) bool {
	return w.whole && at.Sub(w.pausedAt) < w.cfg.MaxTTL+w.cfg.LockDelay
}

// bounds of the clocks' difference. An answer that took longer than half the
// lock delay is believed to be no older than that: a step back must not hide
// behind a slow transaction for longer.
func (w Watch) bounds(r Reading) (least, most time.Duration) {
	asked := max(r.Asked, r.Answered.Add(-w.cfg.LockDelay/2))
	wall := time.Duration(r.Store.UnixNano())
	return wall - time.Duration(r.Answered), wall - time.Duration(asked)
}

// narrow keeps what both intervals allow. Where they exclude each other the
// later one holds.
func narrow(least, most, newLeast, newMost time.Duration) (time.Duration, time.Duration) {
	lo, hi := max(least, newLeast), min(most, newMost)
	if lo > hi {
		return newLeast, newMost
	}
	return lo, hi
}
