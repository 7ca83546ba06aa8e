package postgres

import (
	"context"
	"time"

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
		{`DELETE FROM lease WHERE id IN (SELECT id FROM lease WHERE state = 'ended' AND NOT unsettled AND ended_at < clock_timestamp() - $1::interval ORDER BY ended_at LIMIT $2)`, keep.Ended},
		{`DELETE FROM effect WHERE id IN (SELECT e.id FROM effect e WHERE e.reported_at < clock_timestamp() - $1::interval
			AND NOT EXISTS (SELECT 1 FROM lease l WHERE l.id = e.lease AND (l.unsettled OR l.state <> 'ended')) LIMIT $2)`, keep.Ended},
		{`DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE at < clock_timestamp() - $1::interval ORDER BY at LIMIT $2)`, keep.Audit},
		{`DELETE FROM session WHERE id IN (SELECT s.id FROM session s WHERE s.ended <> '' AND s.ended_at < clock_timestamp() - $1::interval
			AND NOT EXISTS (SELECT 1 FROM lease l WHERE l.session = s.id AND l.state <> 'ended') LIMIT $2)`, keep.Ended},
		{`DELETE FROM join_token WHERE hash IN (SELECT hash FROM join_token WHERE expires_at < clock_timestamp() - $1::interval LIMIT $2)`, keep.Ended},
	} {
		if _, err := s.pool.Exec(ctx, p.query, p.keep, limit); err != nil {
			return translate(err)
		}
	}
	return nil
}
