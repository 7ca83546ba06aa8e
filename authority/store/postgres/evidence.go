package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

const effectColumns = `e.id, e.lease, e.scope, e.node, e.epoch, e.provider, e.operation, e.safety, e.key, e.digest, e.state, e.reason,
	e.status, e.started_at, e.settled_at, e.reported_at, e.outcome, e.seen, e.observed_by, e.observed_at`

func scanEvidence(r pgx.CollectableRow) (lease.Evidence, error) {
	var (
		e                          lease.Evidence
		o                          lease.Observation
		name                       string
		number                     int64
		digest                     []byte
		started, settled, observed *time.Time
	)
	err := r.Scan(&e.Effect.ID, &e.Effect.Lease, &name, &e.Node, &number, &e.Effect.Provider, &e.Effect.Operation, &e.Effect.Safety,
		&e.Effect.Key, &digest, &e.Effect.State, &e.Effect.Reason, &e.Effect.Status, &started, &settled, &e.ReportedAt,
		&o.Outcome, &o.Seen, &o.By, &observed)
	if err != nil {
		return lease.Evidence{}, err
	}
	copy(e.Effect.Digest[:], digest)
	e.Effect.Epoch, e.Effect.StartedAt, e.Effect.SettledAt = epoch.Epoch(number), orZero(started), orZero(settled)
	e.ReportedAt = e.ReportedAt.UTC()
	if observed != nil {
		o.At = observed.UTC()
		e.Observation = &o
	}
	e.Effect.Scope, err = scope.Parse(name)
	return e, err
}

// upsertEffects writes reported effects beside the lease row that they belong
// to, which alone says what scope and node they are of. A row whose state is
// less certain than the stored one changes nothing.
const upsertEffects = `INSERT INTO effect AS e (id, lease, scope, node, epoch, provider, operation, safety, key, digest, state, certainty,
	reason, status, started_at, settled_at, reported_at, outcome, seen, observed_by, observed_at)
	SELECT t.id, l.id, l.scope, l.node, l.epoch, t.provider, t.operation, t.safety, t.key, t.digest, t.state, t.certainty,
	t.reason, t.status, t.started_at, t.settled_at, clock_timestamp(), t.outcome, t.seen, t.observed_by, t.observed_at
	FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[], $9::text[], $10::smallint[],
	$11::text[], $12::integer[], $13::timestamptz[], $14::timestamptz[], $15::text[], $16::text[], $17::text[], $18::timestamptz[])
	AS t(id, lease, node, provider, operation, safety, key, digest, state, certainty, reason, status, started_at, settled_at,
	outcome, seen, observed_by, observed_at)
	JOIN lease l ON l.id = t.lease AND l.node = t.node ORDER BY t.id
	ON CONFLICT (id) DO UPDATE SET state = excluded.state, certainty = excluded.certainty, reason = excluded.reason,
	status = excluded.status, settled_at = excluded.settled_at, reported_at = excluded.reported_at, outcome = excluded.outcome,
	seen = excluded.seen, observed_by = excluded.observed_by, observed_at = excluded.observed_at
	WHERE e.certainty < excluded.certainty AND e.lease = excluded.lease`

func effectArrays(es []lease.Evidence) []any {
	of := func(f func(effect.Effect) string) []string {
		return column(es, func(e lease.Evidence) string { return f(e.Effect) })
	}
	said := func(f func(lease.Observation) string) []string {
		return column(es, func(e lease.Evidence) string {
			if e.Observation == nil {
				return ""
			}
			return f(*e.Observation)
		})
	}
	return []any{
		of(func(e effect.Effect) string { return e.ID }),
		of(func(e effect.Effect) string { return e.Lease }),
		column(es, func(e lease.Evidence) string { return e.Node }),
		of(func(e effect.Effect) string { return e.Provider }),
		of(func(e effect.Effect) string { return e.Operation }),
		of(func(e effect.Effect) string { return string(e.Safety) }),
		of(func(e effect.Effect) string { return e.Key }),
		column(es, func(e lease.Evidence) []byte { return e.Effect.Digest[:] }),
		of(func(e effect.Effect) string { return string(e.State) }),
		column(es, func(e lease.Evidence) int16 { return int16(lease.Certainty(e.Effect.State)) }),
		of(func(e effect.Effect) string { return e.Reason }),
		column(es, func(e lease.Evidence) int32 { return int32(e.Effect.Status) }),
		column(es, func(e lease.Evidence) *time.Time { return orNull(e.Effect.StartedAt) }),
		column(es, func(e lease.Evidence) *time.Time { return orNull(e.Effect.SettledAt) }),
		said(func(o lease.Observation) string { return string(o.Outcome) }),
		said(func(o lease.Observation) string { return o.Seen }),
		said(func(o lease.Observation) string { return o.By }),
		column(es, func(e lease.Evidence) *time.Time {
			if e.Observation == nil {
				return nil
			}
			return orNull(e.Observation.At)
		}),
	}
}

func queueEvidence(p *pgx.Batch, es []lease.Evidence) {
	if len(es) > 0 {
		p.Queue(upsertEffects, effectArrays(es)...)
	}
}

// Report implements store.Store.
func (s *Store) Report(ctx context.Context, node string, effects []effect.Effect) error {
	if len(effects) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := s.pool.Exec(ctx, upsertEffects, effectArrays(store.Reported(node, effects))...)
	return translate(err)
}

// confirm locks the lease row against whoever would end it: either the end is
// seen here, or the effect is there when the lease ends.
const confirm = `WITH held AS (
	SELECT l.id, l.scope, l.node, l.epoch FROM lease l
	 WHERE l.id = $1 AND l.epoch = $2 AND l.session = $3 AND l.node = $4 AND l.state = 'live'
	   AND EXISTS (SELECT 1 FROM session s WHERE s.id = l.session AND s.ended = '' AND s.nonce = $5 AND s.expires_at > clock_timestamp())
	   FOR SHARE)
	INSERT INTO effect (id, lease, scope, node, epoch, provider, operation, safety, key, digest, state, certainty,
	reason, status, started_at, settled_at, reported_at, outcome, seen, observed_by, observed_at)
	SELECT $6, held.id, held.scope, held.node, held.epoch, $7, $8, $9, $10, $11, $12, $13, '', 0, $14, NULL, clock_timestamp(), '', '', '', NULL
	FROM held ON CONFLICT (id) DO UPDATE SET reported_at = excluded.reported_at
	WHERE effect.lease = excluded.lease AND effect.certainty = excluded.certainty`

// Confirm implements store.Store.
func (s *Store) Confirm(ctx context.Context, c store.Confirmation) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	e := c.Effect
	tag, err := s.pool.Exec(ctx, confirm, c.Ref.Lease, int64(c.Ref.Epoch), c.Ref.Session, c.Node, c.Ref.Nonce,
		e.ID, e.Provider, e.Operation, string(e.Safety), e.Key, e.Digest[:], string(effect.Started),
		int16(lease.Certainty(effect.Started)), orNull(e.StartedAt))
	return err == nil && tag.RowsAffected() == 1, translate(err)
}

// Effects implements store.Store.
func (s *Store) Effects(ctx context.Context, sc scope.Scope, limit int) ([]lease.Evidence, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+effectColumns+` FROM effect e LEFT JOIN lease l ON l.id = e.lease
		WHERE e.scope = $1 AND (e.certainty >= 2 OR l.unsettled OR l.state <> 'ended')
		ORDER BY (e.certainty < 2) DESC, e.id DESC LIMIT $2`, sc.String(), limit)
	return collect(rows, err, scanEvidence)
}

// Unsettled implements store.Store.
func (s *Store) Unsettled(ctx context.Context, sc scope.Scope, limit int) ([]lease.Lease, error) {
	query, args := `SELECT `+leaseColumns+` FROM lease l WHERE l.unsettled ORDER BY l.id LIMIT $1`, []any{limit}
	if !sc.IsZero() {
		id := sc.ID()
		query, args = `SELECT `+leaseColumns+` FROM lease l WHERE l.scope_id = $2 AND l.unsettled ORDER BY l.id LIMIT $1`, []any{limit, id[:]}
	}
	rows, err := s.pool.Query(ctx, query, args...)
	return collect(rows, err, scanLease)
}

// queueLeftBehind asks for what ended leases of the scopes left behind.
func queueLeftBehind(p *pgx.Batch, ids [][]byte) {
	p.Queue(`SELECT `+leaseColumns+` FROM lease l WHERE l.scope_id = ANY($1::bytea[]) AND l.unsettled ORDER BY l.epoch`, ids)
	p.Queue(`SELECT `+effectColumns+` FROM effect e WHERE e.certainty < 2
		AND e.lease IN (SELECT l.id FROM lease l WHERE l.scope_id = ANY($1::bytea[]) AND l.unsettled) ORDER BY e.id`, ids)
}

func readLeftBehind(r pgx.BatchResults, l *store.Loaded) error {
	rows, err := r.Query()
	leases, err := collect(rows, err, scanLease)
	if err != nil {
		return err
	}
	rows, err = r.Query()
	evidence, err := collect(rows, err, scanEvidence)
	if err != nil {
		return err
	}
	l.Unsettled = byScope(leases, func(ls lease.Lease) scope.Scope { return ls.Scope })
	l.Evidence = byScope(evidence, func(e lease.Evidence) scope.Scope { return e.Effect.Scope })
	return nil
}
