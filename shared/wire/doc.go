// Package wire converts between the domain and the generated messages, in both
// directions, for every door that speaks them.
//
// Guarantees: what goes over the wire is durations, never deadlines (DESIGN
// 4.3); a replayed answer carries none (DESIGN 3, Session 6); what comes in
// malformed is an error that names the field.
package wire
