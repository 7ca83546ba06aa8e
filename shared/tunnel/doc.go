// Package tunnel is one mutually authenticated TLS connection on which both
// ends open streams and speak gRPC (DESIGN 7.1).
//
// The sidecar dials out once; the authority, which could not reach it, opens
// streams back on the same connection. yamux multiplexes; nothing outside this
// package sees it.
//
// Guarantees: the peer's certificate was verified before a Tunnel exists; a
// peer that stops answering is noticed within Options.KeepAlive plus
// Options.WriteTimeout; Close is idempotent and ends every stream.
//
// Not promised: that a frame which was written has been read.
package tunnel
