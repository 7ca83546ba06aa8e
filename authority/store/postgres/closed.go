package postgres

import (
	"context"

	"github.com/forgeyard/concurrency/shared/lease"
)

// Closed implements store.Store.
func (s *Store) Closed(ctx context.Context, limit int) ([]lease.Record, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+recordColumns+` FROM scope WHERE state <> 'open' LIMIT $1`, limit)
	return collect(rows, err, scanRecord)
}
