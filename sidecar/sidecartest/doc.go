// Package sidecartest serves a sidecar's door on a real socket for tests: the
// real keeper, cache, journal, gate and local API, before an authority that
// says what the test scripts.
package sidecartest
