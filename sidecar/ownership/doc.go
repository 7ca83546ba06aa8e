// Package ownership is the pure state machine of a hold, and the rules by
// which a sidecar believes what the authority tells it.
//
// Step is a function over values: no clock, no goroutine, no log. The keeper
// feeds it events and does what the returned Actions say; Deadline tells which
// single timer to arm. The transition table is data (table.go); a test walks
// every state and event and keeps testdata/table.md, which reads:
//
//	Acquiring -> Owned          the claim was confirmed
//	Owned     -> Uncertain      uncertain_after without confirmation, or a clock event
//	Uncertain -> Owned          the same epoch was confirmed before the hard deadline (FC-26)
//	Owned, Uncertain -> Lost    the hard deadline, or the authority says so
//	Owned, Uncertain -> Releasing   asked, or the caller is gone
//	Releasing -> Unowned        the authority has the release
//
// # Guarantees
//
//   - Lost and Unowned are final; Releasing never goes back to Owned (FC-13).
//   - Only a confirmation moves a deadline, counted from its own sending, and
//     never beyond sent_at + ttl - margin (DESIGN 4.4).
//   - The set of leases is built only from sets; a hint is applied only when it
//     is exactly one newer (Tracker; DESIGN 3, Session 5; FC-91, FC-92).
//
// Not promised: that the authority agrees at this instant; that is what the
// margin is for.
package ownership
