// Package replicas runs several authorities as processes on one Postgres, with
// many sidecars: whole ones, with mTLS and files of their own, in the process
// of the tests.
//
// It holds tests only: rolling restart, a stalled replica, Postgres away for
// longer than leases live, and the herd that comes back (FC-07, FC-41).
package replicas
