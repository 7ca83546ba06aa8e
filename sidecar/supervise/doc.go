// Package supervise runs a command so that nothing of it outlives the hold that
// it runs under.
//
// The command gets a process group of its own, and this process becomes the
// reaper of everything that it leaves behind (PR_SET_CHILD_SUBREAPER): a daemon
// that forks away is still found, stopped, and proved gone, since the proof is
// that there is no child left to wait for (FC-25). One process can supervise
// one command at a time.
//
// # Guarantees
//
//   - Done is closed only when no descendant is left.
//   - Kill ends descendants that ignore TERM, stopped ones too, and those that
//     are forked while it runs.
//   - The command has the terminal when there is one, and cannot be suspended
//     from it.
//   - The command itself dies with this process, even by kill -9.
//
// With an Inner supervisor between, everything dies with this process, not the
// command alone: of the two, the one that is left ends what the other leaves.
//
// Not promised: that descendants of a command end when both are killed by
// kill -9 at once; what they send through the proxy is refused (DESIGN 6.9).
package supervise
