package sqlite

import (
	"context"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

const effectColumns = `e.id, e.lease, e.scope, e.node, e.epoch, e.provider, e.operation, e.safety, e.key, e.digest, e.state, e.reason,
	e.status, e.started_at, e.settled_at, e.reported_at, e.outcome, e.seen, e.observed_by, e.observed_at`

func scanEvidence(r row) (lease.Evidence, error) {
	var (
		e                                            lease.Evidence
		o                                            lease.Observation
		name                                         string
		number, started, settled, reported, observed int64
		digest                                       []byte
	)
	err := r.Scan(&e.Effect.ID, &e.Effect.Lease, &name, &e.Node, &number, &e.Effect.Provider, &e.Effect.Operation, &e.Effect.Safety,
		&e.Effect.Key, &digest, &e.Effect.State, &e.Effect.Reason, &e.Effect.Status, &started, &settled, &reported,
		&o.Outcome, &o.Seen, &o.By, &observed)
	if err != nil {
		return lease.Evidence{}, err
	}
	copy(e.Effect.Digest[:], digest)
	e.Effect.Epoch, e.Effect.StartedAt, e.Effect.SettledAt = epoch.Epoch(number), fromMicros(started), fromMicros(settled)
	e.ReportedAt = fromMicros(reported)
	if observed != 0 {
		o.At = fromMicros(observed)
		e.Observation = &o
	}
	e.Effect.Scope, err = scope.Parse(name)
	return e, err
}

// upsertEffect writes a reported effect beside the lease row that it belongs
// to, which alone says what scope and node it is of. A row whose state is less
// certain than the stored one changes nothing.
const upsertEffect = `INSERT INTO effect (id, lease, scope, node, epoch, provider, operation, safety, key, digest, state, certainty,
	reason, status, started_at, settled_at, reported_at, outcome, seen, observed_by, observed_at)
	SELECT ?1, l.id, l.scope, l.node, l.epoch, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19
	FROM lease l WHERE l.id = ?2 AND l.node = ?3
	ON CONFLICT (id) DO UPDATE SET state = excluded.state, certainty = excluded.certainty, reason = excluded.reason,
	status = excluded.status, settled_at = excluded.settled_at, reported_at = excluded.reported_at, outcome = excluded.outcome,
	seen = excluded.seen, observed_by = excluded.observed_by, observed_at = excluded.observed_at
	WHERE effect.certainty < excluded.certainty AND effect.lease = excluded.lease`

func (s *Store) putEvidence(ctx context.Context, tx writeTx, evidence []lease.Evidence) error {
	for _, e := range evidence {
		var o lease.Observation
		if e.Observation != nil {
			o = *e.Observation
		}
		_, err := tx.ExecContext(ctx, upsertEffect, e.Effect.ID, e.Effect.Lease, e.Node, e.Effect.Provider, e.Effect.Operation,
			string(e.Effect.Safety), e.Effect.Key, e.Effect.Digest[:], string(e.Effect.State), lease.Certainty(e.Effect.State),
			e.Effect.Reason, e.Effect.Status, micros(e.Effect.StartedAt), micros(e.Effect.SettledAt), micros(s.now()),
			string(o.Outcome), o.Seen, o.By, micros(o.At))
		if err != nil {
			return translate(err)
		}
	}
	return nil
}

// Report implements store.Store.
func (s *Store) Report(ctx context.Context, node string, effects []effect.Effect) error {
	if len(effects) == 0 {
		return nil
	}
	return s.inWrite(ctx, func(ctx context.Context, tx writeTx) error {
		return s.putEvidence(ctx, tx, store.Reported(node, effects))
	})
}

// Confirm implements store.Store. The one writer is the lock.
func (s *Store) Confirm(ctx context.Context, c store.Confirmation) (bool, error) {
	confirmed := false
	err := s.inWrite(ctx, func(ctx context.Context, tx writeTx) error {
		var held int
		err := tx.QueryRowContext(ctx, `SELECT count(*) FROM lease l JOIN session s ON s.id = l.session
			WHERE l.id = ? AND l.epoch = ? AND l.session = ? AND l.node = ? AND l.state = 'live'
			AND s.ended = '' AND s.nonce = ? AND s.expires_at > ?`,
			c.Ref.Lease, int64(c.Ref.Epoch), c.Ref.Session, c.Node, c.Ref.Nonce, micros(s.now())).Scan(&held)
		if err != nil || held == 0 {
			return translate(err)
		}
		e := c.Effect
		e.Lease, e.State = c.Ref.Lease, effect.Started
		if err := s.putEvidence(ctx, tx, store.Reported(c.Node, []effect.Effect{e})); err != nil {
			return err
		}
		var open int
		err = tx.QueryRowContext(ctx, `SELECT count(*) FROM effect WHERE id = ? AND lease = ? AND certainty = ?`,
			e.ID, e.Lease, lease.Certainty(effect.Started)).Scan(&open)
		confirmed = open == 1
		return translate(err)
	})
	return confirmed && err == nil, err
}

// Effects implements store.Store.
func (s *Store) Effects(ctx context.Context, sc scope.Scope, limit int) ([]lease.Evidence, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT `+effectColumns+` FROM effect e LEFT JOIN lease l ON l.id = e.lease
		WHERE e.scope = ? AND (e.certainty >= 2 OR l.unsettled OR l.state <> 'ended')
		ORDER BY (e.certainty < 2) DESC, e.id DESC LIMIT ?`, sc.String(), limit)
	return collect(rows, err, scanEvidence)
}

// Unsettled implements store.Store.
func (s *Store) Unsettled(ctx context.Context, sc scope.Scope, limit int) ([]lease.Lease, error) {
	if sc.IsZero() {
		rows, err := s.read.QueryContext(ctx, `SELECT `+leaseColumns+` FROM lease l WHERE l.unsettled ORDER BY l.id LIMIT ?`, limit)
		return collect(rows, err, scanLease)
	}
	id := sc.ID()
	rows, err := s.read.QueryContext(ctx, `SELECT `+leaseColumns+` FROM lease l WHERE l.scope_id = ? AND l.unsettled ORDER BY l.id LIMIT ?`, id[:], limit)
	return collect(rows, err, scanLease)
}

// loadLeftBehind reads what ended leases of the scopes left behind.
func loadLeftBehind(ctx context.Context, tx querier, scopes []scope.Scope, l *store.Loaded) error {
	l.Unsettled, l.Evidence = map[scope.ID][]lease.Lease{}, map[scope.ID][]lease.Evidence{}
	for _, sc := range scopes {
		id := sc.ID()
		rows, err := tx.QueryContext(ctx, `SELECT `+leaseColumns+` FROM lease l WHERE l.scope_id = ? AND l.unsettled ORDER BY l.epoch`, id[:])
		if l.Unsettled[id], err = collect(rows, err, scanLease); err != nil {
			return err
		}
		rows, err = tx.QueryContext(ctx, `SELECT `+effectColumns+` FROM effect e WHERE e.certainty < 2
			AND e.lease IN (SELECT l.id FROM lease l WHERE l.scope_id = ? AND l.unsettled) ORDER BY e.id`, id[:])
		if l.Evidence[id], err = collect(rows, err, scanEvidence); err != nil {
			return err
		}
	}
	return nil
}
