// Package client is the Go library of controllers: it takes a scope through
// the sidecar on this machine, and lets go of it.
//
// A Hold is bound to the connection that it was acquired on: when the process
// dies the hold ends at once. When the sidecar goes away the hold is uncertain,
// and the library attaches it to the next sidecar by its key, up to the hard
// deadline. Its context ends, with a *LostError as cause,
// when the sidecar says that ownership is lost, and by this library's own
// reading of boottime at the hard deadline even when the sidecar says nothing.
//
// Mutations of providers go through HTTPClient, whose requests carry the
// fencing token; it neither retries nor follows redirects.
//
// A cancelled operation ends in order with Settle, the caller's own last word,
// then Release. A controller that knows its provider reconciles what others left
// behind: WatchBlocked, Acquire with ToReconcile, Evidence, Resolve, Reopen.
//
// Not promised: that work which ignores the context stops.
package client
