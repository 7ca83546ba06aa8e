package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/forgeyard/concurrency/authority/store"
)

// Prune implements store.Store. A session row goes only when no lease that
// has not ended names it.
func (s *Store) Prune(ctx context.Context, keep store.Retention, limit int) error {
	return s.inWrite(ctx, func(ctx context.Context, tx writeTx) error {
		before := func(d time.Duration) int64 { return micros(s.now().Add(-d)) }
		for _, p := range []struct {
			query  string
			before int64
		}{
			{`DELETE FROM command WHERE (principal, id) IN (SELECT principal, id FROM command WHERE at < ? ORDER BY at LIMIT ?)`, before(keep.Commands)},
			{`DELETE FROM lease WHERE id IN (SELECT id FROM lease WHERE state = 'ended' AND ended_at < ? ORDER BY ended_at LIMIT ?)`, before(keep.Ended)},
			{`DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE at < ? ORDER BY at LIMIT ?)`, before(keep.Audit)},
			{`DELETE FROM session WHERE id IN (SELECT s.id FROM session s WHERE s.ended <> '' AND s.ended_at < ?
				AND NOT EXISTS (SELECT 1 FROM lease l WHERE l.session = s.id AND l.state <> 'ended') LIMIT ?)`, before(keep.Ended)},
		} {
			if _, err := tx.ExecContext(ctx, p.query, p.before, limit); err != nil {
				return translate(err)
			}
		}
		return nil
	})
}

// PutJoinToken implements store.Store.
func (s *Store) PutJoinToken(ctx context.Context, t store.JoinToken) error {
	return s.inWrite(ctx, func(ctx context.Context, tx writeTx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO join_token (hash, tenants, uses_left, expires_at) VALUES (?, ?, ?, ?)`,
			t.Hash[:], toJSON(t.Tenants), t.UsesLeft, micros(t.ExpiresAt))
		return translate(err)
	})
}

// SpendJoinToken implements store.Store.
func (s *Store) SpendJoinToken(ctx context.Context, hash [32]byte) (store.JoinToken, error) {
	t := store.JoinToken{Hash: hash}
	err := s.inWrite(ctx, func(ctx context.Context, tx writeTx) error {
		var tenants string
		var expires int64
		err := tx.QueryRowContext(ctx, `UPDATE join_token SET uses_left = uses_left - 1
			WHERE hash = ? AND uses_left > 0 AND expires_at > ? RETURNING tenants, uses_left, expires_at`, hash[:], micros(s.now())).
			Scan(&tenants, &t.UsesLeft, &expires)
		if errors.Is(err, sql.ErrNoRows) {
			return store.ErrTokenRefused
		}
		if err != nil {
			return translate(err)
		}
		t.ExpiresAt = fromMicros(expires)
		if err := json.Unmarshal([]byte(tenants), &t.Tenants); err != nil {
			return fmt.Errorf("join token: tenants: %w", err)
		}
		return nil
	})
	return t, err
}
