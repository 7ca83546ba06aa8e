package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/lease"
)

const nodeColumns = `n.name, n.tenants, n.state, n.reason, n.changed_by, n.changed_at, n.admit_from, n.issuer, n.issued_at, n.expires_at, n.seen_at, n.via`

func scanNode(r pgx.CollectableRow) (store.Node, error) {
	var n store.Node
	var changed, from, issued, expires, seen *time.Time
	err := r.Scan(&n.Name, &n.Tenants, &n.State, &n.Reason, &n.ChangedBy, &changed, &from, &n.Certificate.Issuer, &issued, &expires, &seen, &n.Via)
	n.ChangedAt, n.AdmitFrom, n.SeenAt = orZero(changed), orZero(from), orZero(seen)
	n.Certificate.IssuedAt, n.Certificate.ExpiresAt = orZero(issued), orZero(expires)
	return n, err
}

// one returns the only row, or a zero value when there is none.
func one[T any](rows []T, err error) (T, error) {
	var zero T
	if err != nil || len(rows) == 0 {
		return zero, err
	}
	return rows[0], nil
}

// SeeNode implements store.Fleet. The row lock of the upsert orders it with a
// decision about the node.
func (s *Store) SeeNode(ctx context.Context, v store.Visit) (store.Node, error) {
	c := v.Certificate
	rows, err := s.pool.Query(ctx, `INSERT INTO node AS n (name, tenants, state, reason, changed_by, issuer, issued_at, expires_at, seen_at, via)
		VALUES ($1, $2, 'admitted', '', '', $3, $4, $5, clock_timestamp(), $7)
		ON CONFLICT (name) DO UPDATE SET tenants = excluded.tenants, issuer = excluded.issuer, issued_at = excluded.issued_at,
		expires_at = excluded.expires_at, seen_at = excluded.seen_at,
		via = CASE WHEN excluded.via = '' THEN n.via ELSE excluded.via END,
		state = CASE WHEN $6 AND n.state = 'removed' THEN 'admitted' ELSE n.state END,
		admit_from = CASE WHEN $6 AND n.state = 'removed' THEN excluded.issued_at ELSE n.admit_from END
		RETURNING `+nodeColumns, v.Node, v.Tenants, c.Issuer, orNull(c.IssuedAt), orNull(c.ExpiresAt), v.Enrolled, v.Via)
	return one(collect(rows, err, scanNode))
}

// Node implements store.Fleet.
func (s *Store) Node(ctx context.Context, name string) (store.Node, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+nodeColumns+` FROM node n WHERE n.name = $1`, name)
	return one(collect(rows, err, scanNode))
}

// Nodes implements store.Fleet.
func (s *Store) Nodes(ctx context.Context) ([]store.Node, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+nodeColumns+` FROM node n ORDER BY n.name`)
	return collect(rows, err, scanNode)
}

// Refused implements store.Fleet.
func (s *Store) Refused(ctx context.Context) ([]string, error) {
	rows, err := s.pool.Query(ctx, `SELECT name FROM node WHERE state <> 'admitted' ORDER BY name`)
	return collect(rows, err, pgx.RowTo[string])
}

// ChangeNode implements store.Fleet. One statement writes the state and the
// audit line; whoever comes second finds another state.
func (s *Store) ChangeNode(ctx context.Context, c store.NodeChange) error {
	const line = `INSERT INTO audit (at, actor, action, scope, lease, node, epoch, reason)
		SELECT clock_timestamp(), $3::text, 'node-' || $2::text, '', '', changed.name, 0, $4::text FROM changed`
	query := `WITH changed AS (UPDATE node SET state = $2, changed_by = $3, reason = $4, changed_at = clock_timestamp(),
		admit_from = CASE WHEN state = 'removed' AND $2::text = 'admitted' THEN clock_timestamp() ELSE admit_from END
		WHERE name = $1 AND state = $5 RETURNING name) ` + line
	if c.From == "" {
		query = `WITH changed AS (INSERT INTO node (name, tenants, state, changed_by, reason, changed_at, issuer)
			SELECT $1, '{}', $2, $3, $4, clock_timestamp(), $5 ON CONFLICT (name) DO NOTHING RETURNING name) ` + line
	}
	done, err := s.pool.Exec(ctx, query, c.Name, string(c.To), c.By, c.Reason, string(c.From))
	if err != nil {
		return translate(err)
	}
	if done.RowsAffected() == 0 {
		return fmt.Errorf("%w: node %s is not %q any more", store.ErrConflict, c.Name, c.From)
	}
	return nil
}

// PutJoinToken implements store.Fleet.
func (s *Store) PutJoinToken(ctx context.Context, t store.JoinToken) error {
	_, err := s.pool.Exec(ctx, `INSERT INTO join_token (hash, tenants, uses, uses_left, expires_at, made_by, made_at)
		VALUES ($1, $2, $3, $3, $4, $5, clock_timestamp())`, t.Hash[:], t.Tenants, t.UsesLeft, t.ExpiresAt, t.MadeBy)
	return translate(err)
}

const tokenColumns = `hash, tenants, uses, uses_left, expires_at, made_by, made_at`

func scanToken(r pgx.CollectableRow) (store.JoinToken, error) {
	var t store.JoinToken
	var hash []byte
	var made *time.Time
	err := r.Scan(&hash, &t.Tenants, &t.Uses, &t.UsesLeft, &t.ExpiresAt, &t.MadeBy, &made)
	copy(t.Hash[:], hash)
	t.ExpiresAt, t.MadeAt = t.ExpiresAt.UTC(), orZero(made)
	return t, err
}

// SpendJoinToken implements store.Fleet. The row lock of the update makes two
// spenders wait for each other; the second sees what the first left.
func (s *Store) SpendJoinToken(ctx context.Context, hash [32]byte) (store.JoinToken, error) {
	rows, err := s.pool.Query(ctx, `UPDATE join_token SET uses_left = uses_left - 1
		WHERE hash = $1 AND uses_left > 0 AND expires_at > clock_timestamp() RETURNING `+tokenColumns, hash[:])
	t, err := one(collect(rows, err, scanToken))
	if err == nil && t.Hash != hash {
		return store.JoinToken{}, store.ErrTokenRefused
	}
	return t, err
}

// JoinTokens implements store.Fleet.
func (s *Store) JoinTokens(ctx context.Context) ([]store.JoinToken, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+tokenColumns+` FROM join_token ORDER BY made_at DESC NULLS LAST, hash`)
	return collect(rows, err, scanToken)
}

// DropJoinToken implements store.Fleet.
func (s *Store) DropJoinToken(ctx context.Context, hash [32]byte) error {
	done, err := s.pool.Exec(ctx, `DELETE FROM join_token WHERE hash = $1`, hash[:])
	if err != nil {
		return translate(err)
	}
	if done.RowsAffected() == 0 {
		return store.ErrTokenRefused
	}
	return nil
}

// Record implements store.Fleet.
func (s *Store) Record(ctx context.Context, a lease.Audit) error {
	_, err := s.pool.Exec(ctx, `INSERT INTO audit (at, actor, action, scope, lease, node, epoch, reason)
		VALUES (clock_timestamp(), $1, $2, $3, $4, $5, $6, $7)`, a.Actor, a.Action, a.Scope, a.Lease, a.Node, int64(a.Epoch), a.Reason)
	return translate(err)
}
