// Package coordinator holds the use cases of the authority: what a node and a
// person can ask for, checked against rights and limits, carried out by the
// engine over the store.
//
// # Guarantees
//
//   - Every mutating request is a command with an id; the same id answers the
//     same, from any replica, for as long as results are kept (I7, FC-55).
//     Decisions about nodes and join tokens carry none: a repeat changes nothing.
//   - A node that a person has revoked or removed is refused by every
//     replica: its registration by a look before and one after it got a session,
//     so that a decision of between misses neither; its heartbeats by the row of
//     its session; its renewal and its enrolment by its own row.
//   - A node acts within the tenants of its certificate and for its own
//     sessions only; a person within roles and tenants. A scope of another
//     tenant answers a person exactly like one that does not exist (I10).
//   - A refusal says what was wrong with which value, and what can be done.
//
// An error of a method means that the request was not decided, or that it was
// malformed (*InputError), denied or not found; a domain refusal is an Answer.
package coordinator
