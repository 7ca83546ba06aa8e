// Package roster knows which nodes are connected to this replica and carries
// hints and questions to them.
//
// Guarantees: Nudge never blocks and never queues more than the newest version
// for one connection; Inspect asks in parallel, each node within its own
// deadline, and names those that did not answer.
//
// Not promised: that a nudge arrives. Nothing depends on it (DESIGN 3, Session
// 5): a heartbeat finds out.
package roster
