// Package postgres is the store of an authority with one or more replicas.
//
// A transaction is two round trips: one pipeline that begins, inserts the
// command ids, locks the scopes, and then, in later statements, loads leases,
// locks sessions and reads generation, identity and clock; and one that writes
// and commits. Each statement of a pipeline takes its snapshot when it runs,
// which is after the locks before it were granted (READ COMMITTED; FC-93,
// FC-94).
//
// # Guarantees
//
//   - those of package store;
//   - nothing lives in a database session: it works behind PgBouncer in
//     transaction mode (FC-53);
//   - no column that a heartbeat renews is indexed, so renewals are HOT updates
//     (FC-54);
//   - a COMMIT that was answered with a warning, or not answered, is
//     ErrOutcomeUnknown, never success;
//   - a standby, or a primary in recovery, is ErrUnavailable.
//
// The role needs EXECUTE on pg_control_system, the default, beside its
// tables. Not promised: safety with synchronous_commit off, or against a former
// primary that still accepts commits after the new one does (DESIGN 2).
package postgres
