// Package gate decides whether one outgoing call may leave, at this instant.
//
// Admit counts the call in before it reads the View, and the keeper publishes
// Releasing before it reads the count: whichever comes first, a quiescence
// receipt never misses a call (FC-103). A permit is checked three times: at
// Admit, after the intent is durable, and inside the write to the connection.
//
// # Guarantees
//
//   - The gate trusts its own reading of boottime, not the state that the View
//     shows: when the keeper is dead it still closes at the deadlines of the
//     last View (FC-21, FC-22, FC-23).
//   - Cut runs everything that was registered for a hold, and whatever is
//     registered later at once (FC-65).
//   - Admission takes no lock, does no I/O and allocates nothing.
//
// Not promised: that a process paused between the third check and the write is
// caught; a provider's guard is (DESIGN 2).
package gate
