// Package cluster runs the real programs as processes: an authority in dev
// mode, sidecars, and whatever a scenario needs beside them.
//
// Guarantees: a process that Start returned is known to serve; Stop, Kill and
// Close return after it is gone. With Options.Detached the processes outlive
// their parent; otherwise the kernel kills them with it.
//
// Not promised: that a second cluster can use the same directory.
package cluster
