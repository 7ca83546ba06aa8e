package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// orNull stores the zero time as NULL.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

const sessionColumns = `s.id, s.node, s.tenants, s.nonce, s.boot_id, s.lock_device, s.lock_inode, s.ttl, s.registered_at,
	s.expires_at, s.set_version, s.applied_generation, s.applied_version, s.ended_at, s.ended`

func scanSession(r pgx.CollectableRow) (lease.Session, error) {
	var (
		s             lease.Session
		device, inode int64
		ended         *time.Time
	)
	err := r.Scan(&s.ID, &s.Node, &s.Tenants, &s.Nonce, &s.BootID, &device, &inode, &s.TTL, &s.Registered,
		&s.ExpiresAt, &s.SetVersion, &s.Applied.Generation, &s.Applied.Version, &ended, &s.End)
	s.LockFile = lease.LockFile{Device: uint64(device), Inode: uint64(inode)}
	s.Registered, s.ExpiresAt, s.EndedAt = s.Registered.UTC(), s.ExpiresAt.UTC(), orZero(ended)
	return s, err
}

const leaseColumns = `l.id, l.scope, l.slots, l.exclusive, l.holder_kind, l.holder_id, l.session, l.node, l.epoch, l.purpose,
	l.state, l.acquired_at, l.claim_by, l.max_until, l.drain_until, l.drain_generation, l.drain_version, l.ended_at,
	l.end_reason, l.ended_by, l.end_detail, l.unknown_effects, l.unsettled, l.accounted, l.confirm`

func scanLease(r pgx.CollectableRow) (lease.Lease, error) {
	var (
		l                    lease.Lease
		name                 string
		e                    int64
		until, drained, done *time.Time
	)
	err := r.Scan(&l.ID, &name, &l.Slots, &l.Exclusive, &l.Holder.Kind, &l.Holder.ID, &l.Session, &l.Node, &e, &l.Purpose,
		&l.State, &l.AcquiredAt, &l.ClaimBy, &until, &drained, &l.DrainVersion.Generation, &l.DrainVersion.Version, &done,
		&l.EndReason, &l.EndedBy, &l.EndDetail, &l.Unknown, &l.Unsettled, &l.Accounted, &l.Confirm)
	if err != nil {
		return lease.Lease{}, err
	}
	l.Epoch = epoch.Epoch(e)
	l.AcquiredAt, l.ClaimBy = l.AcquiredAt.UTC(), l.ClaimBy.UTC()
	l.MaxUntil, l.DrainUntil, l.EndedAt = orZero(until), orZero(drained), orZero(done)
	l.Scope, err = scope.Parse(name)
	return l, err
}

const recordColumns = `name, epoch, state, reason, forgotten`

func scanRecord(r pgx.CollectableRow) (lease.Record, error) {
	var (
		rec  lease.Record
		name string
		e    int64
	)
	if err := r.Scan(&name, &e, &rec.State, &rec.Reason, &rec.Forgotten); err != nil {
		return lease.Record{}, err
	}
	rec.Epoch = epoch.Epoch(e)
	var err error
	rec.Scope, err = scope.Parse(name)
	return rec, err
}

func scanScope(r pgx.CollectableRow) (scope.Scope, error) {
	var name string
	if err := r.Scan(&name); err != nil {
		return scope.Scope{}, err
	}
	return scope.Parse(name)
}

func scanAudit(r pgx.CollectableRow) (lease.Audit, error) {
	var a lease.Audit
	var e int64
	err := r.Scan(&a.At, &a.Actor, &a.Action, &a.Scope, &a.Lease, &a.Node, &e, &a.Reason)
	a.At, a.Epoch = a.At.UTC(), epoch.Epoch(e)
	return a, err
}

// collect reads every row of an answer and translates its error.
func collect[T any](rows pgx.Rows, err error, scan pgx.RowToFunc[T]) ([]T, error) {
	if err != nil {
		return nil, translate(err)
	}
	out, err := pgx.CollectRows(rows, scan)
	return out, translate(err)
}
