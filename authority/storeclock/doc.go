// Package storeclock compares the store's clock with this replica's boottime
// and says whether time may decide anything (DESIGN 4.2).
//
// Each reading of the store's clock is bracketed by two readings of boottime,
// so what is known of their difference is an interval, not a point: a slow
// answer widens the interval instead of looking like a clock that moved.
//
// Guarantees: a time pause begins with the first reading, when the two clocks
// part by more than lock_delay/4, when this replica could commit nothing for
// longer than one interval, and when the history may have been cut; what a
// Watch is told in a transaction counts in that same transaction. A step back
// by less than lock_delay may pass unseen behind a slow answer, which is why
// the rules count deadlines up to max_ttl + lock_delay ahead as pending.
//
// Steps that are each too small add up (TestSmallStepsAddUp).
//
// Not promised: detection of a slew; margin and lock delay cover it (DESIGN
// 4.6). The package is pure: it reads no clock and holds no lock.
package storeclock
