// Package localapi is the door of controllers: a unix socket with gRPC and JSON
// on it.
//
// The caller is known by the kernel's word (SO_PEERCRED), never by a field. A
// hold is bound to the caller's stream, to a process, or, when he asks for it,
// to a time; when that ends the hold ends at once, as an unclean end
// (DESIGN 6.9; FC-12).
//
// # Guarantees
//
//   - The socket has mode 0600; a live socket of another process is not taken
//     over, a stale one is.
//   - A caller sees the keys of his own user's holds only, and can use no
//     other's; root sees every hold, and its own keys.
//   - A process is known by pid and start time, so that a reused pid keeps
//     nothing alive (FC-104).
//   - A reconciler hears of every blocked scope of his kinds within an interval,
//     hinted or not (TestI6_ReconcilingWithCurl).
//   - Bad input is refused with the field, the value and what is allowed.
//
// Not promised: protection from another process of the same user.
package localapi
