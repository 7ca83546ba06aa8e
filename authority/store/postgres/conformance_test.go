package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/authority/store/postgres"
	"github.com/forgeyard/concurrency/authority/store/postgres/pgtest"
	"github.com/forgeyard/concurrency/authority/store/storetest"
)

// records is one database; every Open is a replica with a pool of its own.
type records struct{ url string }

func (r records) Open(t testing.TB) store.Store { return open(t, r.url) }

func open(t testing.TB, url string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(context.Background(), postgres.Config{URL: url, MaxConns: 8, MaxTTL: storetest.MaxTTL})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// Waiting asks the server which transactions of this database wait for a lock.
func (r records) Waiting(t testing.TB) int64 {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, r.url)
	require.NoError(t, err)
	defer conn.Close(ctx)
	var n int64
	err = conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
	require.NoError(t, err)
	return n
}

// migrated makes a fresh database with the schema.
func migrated(t testing.TB) string {
	t.Helper()
	url := pgtest.Database(t)
	require.NoError(t, postgres.Migrate(context.Background(), url))
	return url
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, harness)
}

func harness(t testing.TB) storetest.DB { return records{migrated(t)} }

// The two cases that only a store with many writers can fail are named here as
// well, so that a search for the field case finds them.

func TestFC93_AWaitingAcquirerIsShownTheLeaseThatWasGrantedMeanwhile(t *testing.T) {
	t.Parallel()
	storetest.RunCase(t, harness, "FC93")
}

func TestFC94_ARaiseWaitsForAGrantingTransaction(t *testing.T) {
	t.Parallel()
	storetest.RunCase(t, harness, "FC94")
}
