// Package boottime holds readings of CLOCK_BOOTTIME as values.
//
// Boottime counts while the machine sleeps, Go's monotonic clock does not, so
// every deadline that the sidecar trusts is an Instant (DESIGN 4.4). The
// package reads no clock; package clock does.
package boottime
