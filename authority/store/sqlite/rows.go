package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// micros stores a time; zero stays zero.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(v int64) time.Time {
	if v == 0 {
		return time.Time{}
	}
	return time.UnixMicro(v).UTC()
}

func toJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic("sqlite: encode column: " + err.Error()) // lists of texts and numbers always encode
	}
	return string(text)
}

// row is what scan reads from: *sql.Row or *sql.Rows.
type row interface{ Scan(...any) error }

const sessionColumns = `s.id, s.node, s.tenants, s.nonce, s.boot_id, s.lock_device, s.lock_inode, s.ttl, s.registered_at,
	s.expires_at, s.set_version, s.applied_generation, s.applied_version, s.ended_at, s.ended`

func scanSession(r row) (lease.Session, error) {
	var (
		s                              lease.Session
		tenants                        string
		ttl, registered, expires, done int64
		device, inode                  int64
	)
	err := r.Scan(&s.ID, &s.Node, &tenants, &s.Nonce, &s.BootID, &device, &inode, &ttl, &registered,
		&expires, &s.SetVersion, &s.Applied.Generation, &s.Applied.Version, &done, &s.End)
	if err != nil {
		return lease.Session{}, err
	}
	if err := json.Unmarshal([]byte(tenants), &s.Tenants); err != nil {
		return lease.Session{}, fmt.Errorf("session %s: tenants: %w", s.ID, err)
	}
	s.LockFile = lease.LockFile{Device: uint64(device), Inode: uint64(inode)}
	s.TTL = time.Duration(ttl) * time.Microsecond
	s.Registered, s.ExpiresAt, s.EndedAt = fromMicros(registered), fromMicros(expires), fromMicros(done)
	return s, nil
}

func sessionValues(s lease.Session) []any {
	return []any{
		s.ID, s.Node, toJSON(s.Tenants), s.Nonce, s.BootID, int64(s.LockFile.Device), int64(s.LockFile.Inode), s.TTL.Microseconds(),
		micros(s.Registered), micros(s.ExpiresAt), s.SetVersion, s.Applied.Generation, s.Applied.Version, micros(s.EndedAt), string(s.End),
	}
}

const putSession = `INSERT INTO session (id, node, tenants, nonce, boot_id, lock_device, lock_inode, ttl, registered_at,
	expires_at, set_version, applied_generation, applied_version, ended_at, ended)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT (id) DO UPDATE SET nonce = excluded.nonce, expires_at = excluded.expires_at, set_version = excluded.set_version,
	applied_generation = excluded.applied_generation, applied_version = excluded.applied_version,
	ended_at = excluded.ended_at, ended = excluded.ended`

const leaseColumns = `l.id, l.scope, l.slots, l.exclusive, l.holder_kind, l.holder_id, l.session, l.node, l.epoch, l.purpose,
	l.state, l.acquired_at, l.claim_by, l.max_until, l.drain_until, l.drain_generation, l.drain_version, l.ended_at,
	l.end_reason, l.ended_by, l.end_detail, l.unknown_effects, l.unsettled, l.accounted, l.confirm`

func scanLease(r row) (lease.Lease, error) {
	var (
		l                                     lease.Lease
		name, slots                           string
		e                                     int64
		acquired, claim, until, drained, done int64
	)
	err := r.Scan(&l.ID, &name, &slots, &l.Exclusive, &l.Holder.Kind, &l.Holder.ID, &l.Session, &l.Node, &e, &l.Purpose,
		&l.State, &acquired, &claim, &until, &drained, &l.DrainVersion.Generation, &l.DrainVersion.Version, &done,
		&l.EndReason, &l.EndedBy, &l.EndDetail, &l.Unknown, &l.Unsettled, &l.Accounted, &l.Confirm)
	if err != nil {
		return lease.Lease{}, err
	}
	if l.Scope, err = scope.Parse(name); err != nil {
		return lease.Lease{}, fmt.Errorf("lease %s: %w", l.ID, err)
	}
	if err := json.Unmarshal([]byte(slots), &l.Slots); err != nil {
		return lease.Lease{}, fmt.Errorf("lease %s: slots: %w", l.ID, err)
	}
	l.Epoch = epoch.Epoch(e)
	l.AcquiredAt, l.ClaimBy, l.MaxUntil = fromMicros(acquired), fromMicros(claim), fromMicros(until)
	l.DrainUntil, l.EndedAt = fromMicros(drained), fromMicros(done)
	return l, nil
}

func leaseValues(l lease.Lease) []any {
	id := l.Scope.ID()
	return []any{
		l.ID, id[:], l.Scope.String(), toJSON(l.Slots), l.Exclusive, string(l.Holder.Kind), l.Holder.ID, l.Session, l.Node,
		int64(l.Epoch), string(l.Purpose), string(l.State), micros(l.AcquiredAt), micros(l.ClaimBy), micros(l.MaxUntil),
		micros(l.DrainUntil), l.DrainVersion.Generation, l.DrainVersion.Version, micros(l.EndedAt), string(l.EndReason),
		l.EndedBy, l.EndDetail, l.Unknown, l.Unsettled, l.Accounted, l.Confirm,
	}
}

const putLease = `INSERT INTO lease (id, scope_id, scope, slots, exclusive, holder_kind, holder_id, session, node, epoch, purpose,
	state, acquired_at, claim_by, max_until, drain_until, drain_generation, drain_version, ended_at, end_reason, ended_by,
	end_detail, unknown_effects, unsettled, accounted, confirm)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT (id) DO UPDATE SET state = excluded.state, max_until = excluded.max_until, drain_until = excluded.drain_until,
	drain_generation = excluded.drain_generation, drain_version = excluded.drain_version, ended_at = excluded.ended_at,
	end_reason = excluded.end_reason, ended_by = excluded.ended_by, end_detail = excluded.end_detail,
	unknown_effects = excluded.unknown_effects, unsettled = excluded.unsettled, accounted = excluded.accounted
	WHERE lease.scope_id = excluded.scope_id AND lease.session = excluded.session AND lease.epoch = excluded.epoch`

const recordColumns = `name, epoch, state, reason, forgotten`

func scanRecord(r row) (lease.Record, error) {
	var (
		rec  lease.Record
		name string
		e    int64
	)
	if err := r.Scan(&name, &e, &rec.State, &rec.Reason, &rec.Forgotten); err != nil {
		return lease.Record{}, err
	}
	parsed, err := scope.Parse(name)
	if err != nil {
		return lease.Record{}, fmt.Errorf("scope row: %w", err)
	}
	rec.Scope, rec.Epoch = parsed, epoch.Epoch(e)
	return rec, nil
}

// collect scans every row and closes rows.
func collect[T any](rows *sql.Rows, err error, scan func(row) (T, error)) ([]T, error) {
	if err != nil {
		return nil, translate(err)
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("read row: %w", err)
		}
		out = append(out, v)
	}
	return out, translate(rows.Err())
}
