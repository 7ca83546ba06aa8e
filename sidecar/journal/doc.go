// Package journal keeps the record of every outgoing call: durable before the
// first byte leaves (I4).
//
// One goroutine writes. Everything that waits while a commit is running goes
// with the next one; there is no timer in front of a commit. Outcomes ride
// along and are flushed by a ticker when nothing else happens: a crash only
// costs an inspection, since an intent without an outcome is Unknown.
//
// # Guarantees
//
//   - Begin returns after its intent is on disk.
//   - After the first error of a commit nothing more is begun: Failed is closed,
//     and whoever opens the gate looks at it.
//   - At Open every effect that was Started becomes Unknown, with the reason
//     "restarted".
//   - Every state that the authority may have to hear of is returned by Changes
//     until it is acknowledged (TestI6_ChangesComeAgainUntilTheyAreAcknowledged);
//     what began and settled between two reports is not.
//   - ID tells this file from every other one, a copy put back included
//     (TestI6_AnotherFileIsAnotherJournal).
//   - Settled effects are kept up to a number and an age; open and unknown ones
//     always.
//
// Not promised: the outcome of a call whose answer nobody read.
package journal
