// Package modeltest is a small world in which the rules of package lease meet
// nodes that believe what they are told exactly as far as DESIGN 3, Session 5-6
// allows. Tests drive it: an exhaustive breadth-first search within bounds, and
// random walks with clocks that run apart and are stepped.
//
// The authority's part is the rules themselves over in-memory records; it is
// the model, not a stand-in for a store. A node's part is what the sidecar's
// tracker does: it applies sets, extends by answers that are no newer than its
// applied set, counts every duration from the sending on its own boottime, and
// never uses a lease again whose deadline it has let pass.
//
// # Properties, checked after every step
//
//   - No two nodes use one exclusive scope at one instant (I1, I5).
//   - No node uses a lease that the authority has ended.
//   - Nobody is granted the scope while anybody else still uses it (I5).
//   - Every grant's epoch is above every epoch issued before, force releases
//     included (I2), and every Change passes lease.Validate (I1, I2).
//
// Each guard can be switched off (Off), which must then make the search find a
// violation: a search that cannot fail proves nothing.
//
// Not promised: anything beyond the bounds that the search prints.
package modeltest
