package postgres

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// The writes of one transaction are one statement for each kind of row, with
// arrays: one row per key, since UPDATE .. FROM unnest applies only one of two
// rows with the same key (FC-96).

// queueWrites adds the statements in an order that no unique index refuses:
// ends before beginnings.
func queueWrites(p *pgx.Batch, b store.Batch, l store.Loaded, c store.Changes) {
	queueScopes(p, c.Scopes)
	known := make(map[string]bool)
	for _, held := range []map[scope.ID][]lease.Lease{l.Leases, l.Unsettled} {
		for _, leases := range held {
			for _, ls := range leases {
				known[ls.ID] = true
			}
		}
	}
	updated, inserted := split(c.Sessions, func(s lease.Session) bool { _, ok := l.Sessions[s.ID]; return ok })
	queueSessionUpdates(p, updated)
	queueSessionInserts(p, inserted)
	changed, granted := split(c.Leases, func(ls lease.Lease) bool { return known[ls.ID] })
	queueLeaseUpdates(p, changed)
	queueLeaseInserts(p, granted)
	queueResults(p, b.Commands, c.Results)
	queueAudit(p, c.Audit)
	queueEvidence(p, c.Evidence)
}

func split[T any](all []T, first func(T) bool) (yes, no []T) {
	for _, v := range all {
		if first(v) {
			yes = append(yes, v)
		} else {
			no = append(no, v)
		}
	}
	return yes, no
}

// column makes the array of one column.
func column[R, V any](rows []R, value func(R) V) []V {
	out := make([]V, len(rows))
	for i, r := range rows {
		out[i] = value(r)
	}
	return out
}

func queueScopes(p *pgx.Batch, recs []lease.Record) {
	if len(recs) == 0 {
		return
	}
	p.Queue(`UPDATE scope s SET epoch = t.epoch, state = t.state, reason = t.reason, forgotten = t.forgotten
		FROM unnest($1::bytea[], $2::bigint[], $3::text[], $4::text[], $5::boolean[]) AS t(id, epoch, state, reason, forgotten) WHERE s.id = t.id`,
		column(recs, func(r lease.Record) []byte { id := r.Scope.ID(); return id[:] }),
		column(recs, func(r lease.Record) int64 { return int64(r.Epoch) }),
		column(recs, func(r lease.Record) string { return string(r.State) }),
		column(recs, func(r lease.Record) string { return r.Reason }),
		column(recs, func(r lease.Record) bool { return r.Forgotten }))
}

func queueSessionUpdates(p *pgx.Batch, ss []lease.Session) {
	if len(ss) == 0 {
		return
	}
	p.Queue(`UPDATE session s SET nonce = t.nonce, expires_at = t.expires_at, set_version = t.set_version,
		applied_generation = t.ag, applied_version = t.av, ended_at = t.ended_at, ended = t.ended
		FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::bigint[], $5::integer[], $6::bigint[], $7::timestamptz[], $8::text[])
		AS t(id, nonce, expires_at, set_version, ag, av, ended_at, ended) WHERE s.id = t.id`,
		column(ss, func(s lease.Session) string { return s.ID }),
		column(ss, func(s lease.Session) string { return s.Nonce }),
		column(ss, func(s lease.Session) time.Time { return s.ExpiresAt }),
		column(ss, func(s lease.Session) int64 { return int64(s.SetVersion) }),
		column(ss, func(s lease.Session) int32 { return int32(s.Applied.Generation) }),
		column(ss, func(s lease.Session) int64 { return int64(s.Applied.Version) }),
		column(ss, func(s lease.Session) *time.Time { return orNull(s.EndedAt) }),
		column(ss, func(s lease.Session) string { return string(s.End) }))
}

// queueSessionInserts writes new sessions one by one: they are rare.
func queueSessionInserts(p *pgx.Batch, ss []lease.Session) {
	for _, s := range ss {
		p.Queue(`INSERT INTO session (id, node, tenants, nonce, boot_id, lock_device, lock_inode, ttl, registered_at, expires_at,
			set_version, applied_generation, applied_version, ended_at, ended)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
			s.ID, s.Node, s.Tenants, s.Nonce, s.BootID, int64(s.LockFile.Device), int64(s.LockFile.Inode), s.TTL, s.Registered,
			s.ExpiresAt, int64(s.SetVersion), int32(s.Applied.Generation), int64(s.Applied.Version), orNull(s.EndedAt), string(s.End))
	}
}

func queueLeaseUpdates(p *pgx.Batch, ls []lease.Lease) {
	if len(ls) == 0 {
		return
	}
	p.Queue(`UPDATE lease l SET state = t.state, max_until = t.max_until, drain_until = t.drain_until,
		drain_generation = t.dg, drain_version = t.dv, ended_at = t.ended_at, end_reason = t.reason, ended_by = t.ended_by,
		end_detail = t.detail, unknown_effects = t.unknown, unsettled = t.unsettled, accounted = t.accounted
		FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::integer[], $6::bigint[], $7::timestamptz[],
		$8::text[], $9::text[], $10::text[], $11::integer[], $12::boolean[], $13::boolean[])
		AS t(id, state, max_until, drain_until, dg, dv, ended_at, reason, ended_by, detail, unknown, unsettled, accounted) WHERE l.id = t.id`,
		column(ls, func(l lease.Lease) string { return l.ID }),
		column(ls, func(l lease.Lease) string { return string(l.State) }),
		column(ls, func(l lease.Lease) *time.Time { return orNull(l.MaxUntil) }),
		column(ls, func(l lease.Lease) *time.Time { return orNull(l.DrainUntil) }),
		column(ls, func(l lease.Lease) int32 { return int32(l.DrainVersion.Generation) }),
		column(ls, func(l lease.Lease) int64 { return int64(l.DrainVersion.Version) }),
		column(ls, func(l lease.Lease) *time.Time { return orNull(l.EndedAt) }),
		column(ls, func(l lease.Lease) string { return string(l.EndReason) }),
		column(ls, func(l lease.Lease) string { return l.EndedBy }),
		column(ls, func(l lease.Lease) string { return l.EndDetail }),
		column(ls, func(l lease.Lease) int32 { return int32(l.Unknown) }),
		column(ls, func(l lease.Lease) bool { return l.Unsettled }),
		column(ls, func(l lease.Lease) bool { return l.Accounted }))
}

// queueLeaseInserts writes grants. A grant that ended within its own batch is
// written with its end.
func queueLeaseInserts(p *pgx.Batch, ls []lease.Lease) {
	if len(ls) == 0 {
		return
	}
	// Ended ones first, for the index that allows one that has not.
	ls = slices.Clone(ls)
	slices.SortStableFunc(ls, func(a, b lease.Lease) int { return boolRank(a) - boolRank(b) })
	p.Queue(`INSERT INTO lease (id, scope_id, scope, slots, exclusive, holder_kind, holder_id, session, node, epoch, purpose,
		state, acquired_at, claim_by, max_until, drain_until, drain_generation, drain_version, ended_at, end_reason, ended_by,
		end_detail, unknown_effects, unsettled, accounted, confirm)
		SELECT id, scope_id, scope, slots::integer[], exclusive, hk, hi, session, node, epoch, purpose, state, acquired_at, claim_by,
		max_until, drain_until, dg, dv, ended_at, reason, ended_by, detail, unknown, unsettled, accounted, confirm
		FROM unnest($1::text[], $2::bytea[], $3::text[], $4::text[], $5::boolean[], $6::text[], $7::text[], $8::text[], $9::text[],
		$10::bigint[], $11::text[], $12::text[], $13::timestamptz[], $14::timestamptz[], $15::timestamptz[], $16::timestamptz[],
		$17::integer[], $18::bigint[], $19::timestamptz[], $20::text[], $21::text[], $22::text[], $23::integer[],
		$24::boolean[], $25::boolean[], $26::boolean[])
		AS t(id, scope_id, scope, slots, exclusive, hk, hi, session, node, epoch, purpose, state, acquired_at, claim_by, max_until,
		drain_until, dg, dv, ended_at, reason, ended_by, detail, unknown, unsettled, accounted, confirm)`,
		leaseArrays(ls)...)
}

func boolRank(l lease.Lease) int {
	if l.State == lease.Ended {
		return 0
	}
	return 1
}

func leaseArrays(ls []lease.Lease) []any {
	return []any{
		column(ls, func(l lease.Lease) string { return l.ID }),
		column(ls, func(l lease.Lease) []byte { id := l.Scope.ID(); return id[:] }),
		column(ls, func(l lease.Lease) string { return l.Scope.String() }),
		column(ls, func(l lease.Lease) string { return arrayLiteral(l.Slots) }),
		column(ls, func(l lease.Lease) bool { return l.Exclusive }),
		column(ls, func(l lease.Lease) string { return string(l.Holder.Kind) }),
		column(ls, func(l lease.Lease) string { return l.Holder.ID }),
		column(ls, func(l lease.Lease) string { return l.Session }),
		column(ls, func(l lease.Lease) string { return l.Node }),
		column(ls, func(l lease.Lease) int64 { return int64(l.Epoch) }),
		column(ls, func(l lease.Lease) string { return string(l.Purpose) }),
		column(ls, func(l lease.Lease) string { return string(l.State) }),
		column(ls, func(l lease.Lease) time.Time { return l.AcquiredAt }),
		column(ls, func(l lease.Lease) time.Time { return l.ClaimBy }),
		column(ls, func(l lease.Lease) *time.Time { return orNull(l.MaxUntil) }),
		column(ls, func(l lease.Lease) *time.Time { return orNull(l.DrainUntil) }),
		column(ls, func(l lease.Lease) int32 { return int32(l.DrainVersion.Generation) }),
		column(ls, func(l lease.Lease) int64 { return int64(l.DrainVersion.Version) }),
		column(ls, func(l lease.Lease) *time.Time { return orNull(l.EndedAt) }),
		column(ls, func(l lease.Lease) string { return string(l.EndReason) }),
		column(ls, func(l lease.Lease) string { return l.EndedBy }),
		column(ls, func(l lease.Lease) string { return l.EndDetail }),
		column(ls, func(l lease.Lease) int32 { return int32(l.Unknown) }),
		column(ls, func(l lease.Lease) bool { return l.Unsettled }),
		column(ls, func(l lease.Lease) bool { return l.Accounted }),
		column(ls, func(l lease.Lease) bool { return l.Confirm }),
	}
}

// arrayLiteral writes {0,1}: an array of arrays would be flattened by unnest.
func arrayLiteral(slots []int) string {
	parts := make([]string, len(slots))
	for i, s := range slots {
		parts[i] = strconv.Itoa(s)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func queueResults(p *pgx.Batch, cmds []store.Command, results map[int][]byte) {
	if len(results) == 0 {
		return
	}
	var principals, ids []string
	var bodies [][]byte
	for i, body := range results {
		principals, ids, bodies = append(principals, cmds[i].Principal), append(ids, cmds[i].ID), append(bodies, body)
	}
	p.Queue(`UPDATE command c SET result = t.result FROM unnest($1::text[], $2::text[], $3::bytea[]) AS t(principal, id, result)
		WHERE c.principal = t.principal AND c.id = t.id`, principals, ids, bodies)
}

func queueAudit(p *pgx.Batch, as []lease.Audit) {
	if len(as) == 0 {
		return
	}
	p.Queue(`INSERT INTO audit (at, actor, action, scope, lease, node, epoch, reason)
		SELECT * FROM unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[])`,
		column(as, func(a lease.Audit) time.Time { return a.At }),
		column(as, func(a lease.Audit) string { return a.Actor }),
		column(as, func(a lease.Audit) string { return a.Action }),
		column(as, func(a lease.Audit) string { return a.Scope }),
		column(as, func(a lease.Audit) string { return a.Lease }),
		column(as, func(a lease.Audit) string { return a.Node }),
		column(as, func(a lease.Audit) int64 { return int64(a.Epoch) }),
		column(as, func(a lease.Audit) string { return a.Reason }))
}
