package sqlite

import (
	"context"
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
			{`DELETE FROM lease WHERE id IN (SELECT id FROM lease WHERE state = 'ended' AND NOT unsettled AND ended_at < ? ORDER BY ended_at LIMIT ?)`, before(keep.Ended)},
			{`DELETE FROM effect WHERE id IN (SELECT e.id FROM effect e WHERE e.reported_at < ?
				AND NOT EXISTS (SELECT 1 FROM lease l WHERE l.id = e.lease AND (l.unsettled OR l.state <> 'ended')) LIMIT ?)`, before(keep.Ended)},
			{`DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE at < ? ORDER BY at LIMIT ?)`, before(keep.Audit)},
			{`DELETE FROM session WHERE id IN (SELECT s.id FROM session s WHERE s.ended <> '' AND s.ended_at < ?
				AND NOT EXISTS (SELECT 1 FROM lease l WHERE l.session = s.id AND l.state <> 'ended') LIMIT ?)`, before(keep.Ended)},
			{`DELETE FROM join_token WHERE hash IN (SELECT hash FROM join_token WHERE expires_at < ? LIMIT ?)`, before(keep.Ended)},
		} {
			if _, err := tx.ExecContext(ctx, p.query, p.before, limit); err != nil {
				return translate(err)
			}
		}
		return nil
	})
}
