// Package model is a small world in which the real pure machines meet: the
// rules of shared/lease on one side, and on the other sidecar/ownership (hold
// and tracker) with the decision of sidecar/gate. Tests drive it: exhaustive
// breadth-first searches within bounds, and random walks with clocks that run
// apart and are stepped.
//
// The authority's part is the rules themselves over in-memory records. What is
// written by hand is what the keeper does around the machines: it applies sets,
// takes an answer as a delta only when it changed the set itself, confirms by
// the time of sending, and brings its holds back after a restart. No timer runs
// before an answer is taken in: the machines themselves must refuse what comes
// late.
//
// # Properties, checked after every step
//
//   - No two nodes' gates let effects of one exclusive scope pass at one
//     instant, neither new ones nor ones that they admitted before (I1, I5).
//   - No gate is open under a lease that the authority has ended, unless its
//     history was cut.
//   - Nobody is granted the scope while anybody's gate is still open (I5).
//   - Every grant's epoch is above every epoch issued before, force releases
//     and restored dumps included (I2); every Change passes lease.Validate.
//   - A reconciling scope that somebody left uncleanly is granted to nobody
//     before a person has accepted it (I6).
//
// # What is searched
//
// Two nodes, one scope, ticks of a second at a ttl of three, in twelve
// scenarios: 1,046,782 states. In each, messages are delayed, lost and reordered
// at will; repeats, force releases, clock steps and events, restarts, reboots,
// generation raises and restored dumps are bounded per scenario. `make model`
// prints bounds and states; the count of each is asserted exactly, so that a
// search cannot shrink unseen. Guards of the node's and the store's side can be
// switched off (Off), which must make a search fail; guards inside the machines
// are taken out as texts by e2e/mutants.
//
// The walks also end well: once everybody is gone and a person has accepted what
// was left, the scope can be had again.
//
// Not promised: anything beyond the bounds that the search prints; progress;
// the keeper's goroutines, which e2e/chaos exercises.
package model
