// Package rpc is the authority's door: SessionService for sidecars over their
// tunnels, ConcurrencyService and EnrollmentService for people and machines
// over TLS, the former as JSON too. It translates the wire into the
// coordinator's words and back; it decides nothing.
//
// # Guarantees
//
//   - Who calls is the certificate or the bearer token, never a field.
//   - One writer goroutine per session stream batches the answers that are
//     ready; every command is carried on its own, so a slow one delays no
//     other. What one stream may have outstanding is bounded.
//   - A heartbeat, a set fetch or a command is served only for the session that
//     was registered on its stream.
//   - What was not decided is a Fault and may be sent again; a malformed
//     request is a Fault that names field and value.
//   - A stop answers what was asked and sends the sidecars away one after the
//     other; handshakes under way are bounded, and who comes beyond is sent away
//     at once (TestFC41_ConnectionsBeyondTheHandshakesUnderWayAreSentAwayAtOnce).
//
// Not promised: order between the answers of one stream.
package rpc
