// Package uplink keeps one tunnel to one of the authority's replicas, registers
// the session on it, and carries the keeper's requests.
//
// Requests are batched: everything that waits while a frame is being written
// goes with the next one. Answers are matched by sequence number. When the
// stream ends commands are sent again, with the same ids, on the next one;
// heartbeats and fetches fail, and the keeper decides.
//
// Guarantees: a command is answered at most once by each id; attempts to
// connect back off with jitter and move on to the next address; the node's
// key never leaves the node.
//
// Not promised: that the authority has seen a request whose answer is missing.
package uplink
