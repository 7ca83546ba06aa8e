// Package feed carries hints between the replicas of one authority: a session's
// set has moved, and the node is connected to another replica.
//
// Guarantees: Moved never blocks and keeps the newest version of each session
// only; what was gathered while one notice was being sent goes with the next
// (TestHintsAreGatheredIntoTextsThatFit); a lost listening connection is made
// again with backoff and jitter, for as long as Run runs
// (TestALostListeningConnectionIsMadeAgain).
//
// Not promised: that a hint arrives. Nothing depends on it (DESIGN 3, Session
// 5): a heartbeat finds out. A notice is sent after the commit that it speaks
// of, not within it: NOTIFY holds a lock of the whole server up to the end of
// its transaction, which for a grant is an fsync (BenchmarkNotify of
// authority/store/postgres).
package feed
