package lease

import (
	"errors"
	"fmt"
	"time"
)

// Bounds of DESIGN 4.
const (
	TTLFloor    = 2 * time.Second
	MarginFloor = 500 * time.Millisecond
)

// Budget is the timeline of silence of one session (DESIGN 4.6-4.7). All of it
// together is the safety argument, so Validate checks the relations.
type Budget struct {
	TTL            time.Duration // the authority counts the session as alive for so long
	Interval       time.Duration // between heartbeats
	UncertainAfter time.Duration // without confirmation: no new effect starts
	KillGrace      time.Duration // between TERM and the hard deadline
	Margin         time.Duration // the hard deadline lies so long before the authority's
	LockDelay      time.Duration // the authority waits so long after its own
}

// DefaultBudget returns the defaults of DESIGN 4.
func DefaultBudget() Budget {
	return Budget{
		TTL: 15 * time.Second, Interval: 3 * time.Second, UncertainAfter: 9 * time.Second,
		KillGrace: 3 * time.Second, Margin: time.Second, LockDelay: 2500 * time.Millisecond,
	}
}

// HardDeadline is how long after the sending of the last successful heartbeat
// everything is cut.
func (b Budget) HardDeadline() time.Duration { return b.TTL - b.Margin }

// Validate joins every broken relation, each with both values.
func (b Budget) Validate() error {
	var errs []error
	demand := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	demand(b.TTL >= TTLFloor, "ttl %s: must be at least %s", b.TTL, TTLFloor)
	demand(b.Interval > 0, "interval %s: must be above 0", b.Interval)
	demand(b.KillGrace >= 0, "kill_grace %s: must not be negative", b.KillGrace)
	demand(b.Interval < b.UncertainAfter, "interval %s: must be below uncertain_after %s", b.Interval, b.UncertainAfter)
	demand(b.UncertainAfter+b.KillGrace < b.HardDeadline(),
		"uncertain_after %s + kill_grace %s: must be below ttl - margin = %s", b.UncertainAfter, b.KillGrace, b.HardDeadline())
	demand(b.Margin >= MarginFloor, "margin %s: must be at least %s", b.Margin, MarginFloor)
	need := MarginFloor + b.TTL/5
	demand(b.Margin+b.LockDelay >= need,
		"margin %s + lock_delay %s: must be at least 500ms + ttl/5 = %s", b.Margin, b.LockDelay, need)
	return errors.Join(errs...)
}
