package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgeyard/concurrency/authority/store"
)

// Prune implements store.Store. A session row goes only when no lease that
// has not ended names it.
func (s *Store) Prune(ctx context.Context, keep store.Retention, limit int) error {
	for _, p := range []struct {
		query string
		keep  time.Duration
	}{
		{`DELETE FROM command WHERE (principal, id) IN (SELECT principal, id FROM command WHERE at < clock_timestamp() - $1::interval ORDER BY at LIMIT $2)`, keep.Commands},
		{`DELETE FROM lease WHERE id IN (SELECT id FROM lease WHERE state = 'ended' AND ended_at < clock_timestamp() - $1::interval ORDER BY ended_at LIMIT $2)`, keep.Ended},
		{`DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE at < clock_timestamp() - $1::interval ORDER BY at LIMIT $2)`, keep.Audit},
		{`DELETE FROM session WHERE id IN (SELECT s.id FROM session s WHERE s.ended <> '' AND s.ended_at < clock_timestamp() - $1::interval
			AND NOT EXISTS (SELECT 1 FROM lease l WHERE l.session = s.id AND l.state <> 'ended') LIMIT $2)`, keep.Ended},
	} {
		if _, err := s.pool.Exec(ctx, p.query, p.keep, limit); err != nil {
			return translate(err)
		}
	}
	return nil
}

// PutJoinToken implements store.Store.
func (s *Store) PutJoinToken(ctx context.Context, t store.JoinToken) error {
	_, err := s.pool.Exec(ctx, `INSERT INTO join_token (hash, tenants, uses_left, expires_at) VALUES ($1, $2, $3, $4)`,
		t.Hash[:], t.Tenants, t.UsesLeft, t.ExpiresAt)
	return translate(err)
}

// SpendJoinToken implements store.Store. The row lock of the update makes two
// spenders wait for each other; the second sees what the first left.
func (s *Store) SpendJoinToken(ctx context.Context, hash [32]byte) (store.JoinToken, error) {
	t := store.JoinToken{Hash: hash}
	err := s.pool.QueryRow(ctx, `UPDATE join_token SET uses_left = uses_left - 1
		WHERE hash = $1 AND uses_left > 0 AND expires_at > clock_timestamp() RETURNING tenants, uses_left, expires_at`, hash[:]).
		Scan(&t.Tenants, &t.UsesLeft, &t.ExpiresAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return store.JoinToken{}, store.ErrTokenRefused
	}
	return t, translate(err)
}
