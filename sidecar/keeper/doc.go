// Package keeper owns every hold of a sidecar: it asks, claims, renews, loses
// and gives back.
//
// One goroutine feeds events to the machines of package ownership, persists
// what must survive, and then publishes an immutable View to the gate; readers
// take no lock and do no I/O (DESIGN 6.2). Calls to the authority and to the
// disk run beside it and come back as events; each carries the attempt that it
// belongs to, and a late one is ignored (FC-57).
//
// # Guarantees
//
//   - A heartbeat leaves only after a durable write.
//   - A set version is reported as applied only after the gates of what it took
//     away were closed and its connections cut (DESIGN 3, Session 7b).
//   - A release carries a quiescence receipt: published Releasing or Lost, then
//     nothing in flight, then everything settled or recorded as unknown.
//   - A hold is not forgotten before the authority has its release, or its
//     session is over.
//   - When this goroutine dies the gate still closes by its own clock (FC-21).
//
// Waiting for a busy scope is paced by the server's hint with jitter; durable
// waiters are not part of this version.
package keeper
