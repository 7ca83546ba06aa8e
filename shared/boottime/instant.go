package boottime

import "time"

// Instant is a reading of CLOCK_BOOTTIME in nanoseconds since the boot of this
// machine. Instants of different boots are not comparable. The zero Instant
// means "never": a deadline of zero has always passed.
type Instant int64

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from o to i.
func (i Instant) Sub(o Instant) time.Duration { return time.Duration(i - o) }

// Before reports whether i lies before o.
func (i Instant) Before(o Instant) bool { return i < o }
