// Package chaos kills processes at random points of a run of operations, and
// judges what was acknowledged and what the provider saw.
//
// SEED repeats a run's decisions, LONG=1 makes it 200 operations long. The
// package has no code outside tests.
package chaos
