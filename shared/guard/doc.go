// Package guard is the provider's side of fencing: a service that is written
// to under leases keeps the highest token it has seen and refuses every lower
// one (DESIGN 3, Epoch 6).
//
// The check and the write are one step: Do holds the key while the write runs,
// so that a slow write of an older holder cannot land after one of a newer. A
// service that has a transaction of its own puts the mark into it (CheckTx).
//
// # Guarantees
//
//   - A token lower than one accepted before, for the same scope and slot, is
//     refused: after a restart too, when the marks are in a file.
//   - Two leases with one token are refused and reported: that never happens
//     while an authority is sound (I2).
//   - A higher token is durable before its write begins.
//
// Tests: TestI3_, TestFC05_, TestFC105_; the handler's report in TestHandler.
//
// Not promised: that the token is genuine. Whoever reaches the service past
// the sidecar can send any; keep others out by other means. A write that goes
// on in the background after its handler returned is not covered.
package guard
