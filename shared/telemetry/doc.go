// Package telemetry builds the logger and the operators' HTTP surface that
// every daemon of the system has: /metrics, /healthz and /readyz.
//
// Not promised: authentication. The surface belongs on loopback or a
// management network.
package telemetry
