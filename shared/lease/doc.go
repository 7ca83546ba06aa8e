// Package lease holds the records of ownership and the pure rules that change
// them: acquire, claim, renew, release, expire, force-release, drain for
// scopes; register, resume, beat and close for sessions.
//
// Every rule is a function over values. It is given Facts (the store's clock
// read last, the generation read after the locks, the time pause), the Case of
// one scope as loaded under its locks, and a request; it returns a Change and
// an Answer. No rule reads a clock, mints an identifier, logs or blocks.
//
// # Guarantees
//
//   - I1: a Change never leaves two leases of an exclusive scope that are not
//     ended (Validate proves it for each Change before it is written).
//   - I2: every grant and every force-release raises the epoch of its scope.
//   - I3: a rule that names a lease names its epoch too; what does not match
//     changes nothing.
//   - Nobody is granted a scope before the former holder's quiescence receipt,
//     its applied set, or the end of its time plus the lock delay
//     (DESIGN 3, Session 7; DESIGN 4.6).
//   - During a time pause nothing of a session ends or starts by time
//     (DESIGN 4.2).
//
// # Time
//
// Facts.Now is the store's clock. A deadline d is pending while
// 0 < d-now <= the longest span it can have been set for; a deadline further
// in the future was set by a clock that has been stepped back, and counts as
// passed once the time pause that such a step causes is over (FC-24, FC-101).
// Two clocks that slew apart by up to 8 % are covered by margin and lock delay
// (DESIGN 4.6).
//
// Not promised: that the work under an ended lease has stopped (I6), fairness
// between requests that find the scope busy.
package lease
