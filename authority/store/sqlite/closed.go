package sqlite

import (
	"context"

	"github.com/forgeyard/concurrency/shared/lease"
)

// Closed implements store.Store.
func (s *Store) Closed(ctx context.Context, limit int) ([]lease.Record, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT `+recordColumns+` FROM scope WHERE state <> 'open' LIMIT ?`, limit)
	return collect(rows, err, scanRecord)
}
