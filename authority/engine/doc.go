// Package engine carries commands and heartbeats to the store: it coalesces
// them without a timer, keeps the replica's time pause, and repeats what the
// infrastructure dropped under the same command ids (DESIGN 5.4).
//
// # Two lanes
//
// Commands gather while one transaction is in flight; then all of them go as
// the next one, by one writer. Heartbeats have their own lane and statement; a
// session whose row somebody has locked is renewed singly beside the lane, so
// it delays nobody else (FC-106).
//
// # Guarantees
//
//   - The context of a caller never cancels a commit: one who leaves early
//     gets his context's error, the command runs on, and the same id learns
//     the outcome (FC-55). A command that was not picked up yet is dropped.
//   - A domain refusal is an answer. An infrastructure error is retried with
//     the same ids, bounded and jittered; a batch that conflicts is split, so
//     that one locked scope delays only its own commands for long.
//   - The time pause is evaluated in the transaction that uses it (DESIGN 4.2).
//   - No transaction is decided on a history that may have been cut: another
//     identity of the database, a lost incarnation row or a verified receipt
//     ahead of the store raise the generation first and begin a whole pause
//     (DESIGN 5.8).
//   - Both queues are bounded; what does not fit is ErrOverloaded, never
//     silently dropped.
//
// Not promised: order between two callers.
package engine
