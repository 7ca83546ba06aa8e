// Package history holds what a run of real processes did, and judges it.
//
// A history is a list of grants, as clients saw them, and of writes, as the
// provider saw them, on one monotonic clock. Two judges look at it:
//
//   - Linearizable: porcupine (Horn, Kroening; Lowe) searches for an order of
//     all operations of a scope under which the model of leases and fencing
//     holds: epochs only rise; a guarded provider accepts no token below one it
//     has accepted; an unguarded provider is written to only under the newest
//     epoch that was granted.
//   - Audit: the oracle of DESIGN 10, told apart so that a violation names the
//     two operations that exclude each other: no epoch twice, no lower token
//     accepted, and the last byte of an older holder before the next grant (I5).
//
// Both are pure. Not promised: finding what no client and no provider saw.
package history
