// Package store is the contract between the engine and the databases that hold
// the authority's records.
//
// A store does not know the rules. Its centre is Transact: it locks, loads in
// later statements, reads the generation, the identity of the database and, last,
// the clock; it calls decide once with what it loaded, writes what decide
// returned, and commits (DESIGN 5.2, 5.3).
//
// # Guarantees of every implementation (proved by package storetest)
//
//   - The command ids of a batch are inserted by the first statement; a twin in
//     another transaction waits there, and only then its stored result is read
//     (FC-95).
//   - Lock order: command ids, scopes by id, sessions by id, each by one sorted
//     statement that returns nothing but the locked rows. Leases are loaded in
//     a later statement (FC-93), the generation after the scope locks (FC-94).
//   - One row per key is written (FC-96). Epochs are columns, never a sequence
//     (FC-50).
//   - A commit is never cancelled by a caller's context (FC-55). An error that
//     leaves the outcome open is ErrOutcomeUnknown: the same command ids may be
//     sent again and run once.
//   - Heartbeat renews rows one by one in effect: a locked row delays nobody
//     else (FC-106).
//
// Not promised: fairness between batches, or that a read outside Transact is
// newer than the last commit.
package store
