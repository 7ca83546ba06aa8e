package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/authority/store/postgres"
	"github.com/forgeyard/concurrency/authority/store/postgres/pgtest"
	"github.com/forgeyard/concurrency/shared/lease"
)

// sessions opens n sessions and returns their heartbeats.
func sessions(t testing.TB, s store.Store, n int) []lease.Beat {
	t.Helper()
	var beats []lease.Beat
	now := time.Now().UTC().Truncate(time.Microsecond)
	for at := 0; at < n; at += 500 {
		var c store.Changes
		for i := at; i < min(at+500, n); i++ {
			id := fmt.Sprintf("S%06d", i)
			c.Sessions = append(c.Sessions, lease.Session{
				ID: id, Node: "node-" + id, Tenants: []string{"acme"}, Nonce: "n", BootID: "b", TTL: 15 * time.Second,
				Registered: now, ExpiresAt: now.Add(15 * time.Second), SetVersion: 1,
			})
			beats = append(beats, lease.Beat{Session: id, Nonce: "n"})
		}
		require.NoError(t, s.Transact(context.Background(), store.Batch{}, func(store.Loaded) (store.Changes, error) { return c, nil }))
	}
	return beats
}

// TestFC54_RenewalsAreHOTUpdates measures the share of heap-only updates under
// heartbeats: an index on a renewed column, or full pages, would end it.
func TestFC54_RenewalsAreHOTUpdates(t *testing.T) {
	t.Parallel()
	// Its own server: a snapshot that autovacuum holds while everything else runs
	// here would keep pages from being pruned, which says nothing of the schema.
	db := server(t, pgtest.Options{Settings: map[string]string{"autovacuum": "off"}}).Database(t)
	require.NoError(t, postgres.Migrate(t.Context(), db))
	s := open(t, db)
	beats := sessions(t, s, 500)
	for range 80 {
		_, err := s.Heartbeat(t.Context(), beats, false)
		require.NoError(t, err)
	}
	s.Close() // the server counts when its sessions end
	conn, err := pgx.Connect(t.Context(), db)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), `SELECT pg_stat_force_next_flush()`)
	require.NoError(t, err)
	var updates, hot float64
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for updates < 40_000 { // counters arrive a little later; the test's own limit bounds the wait
		<-tick.C
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'session'`).Scan(&updates, &hot))
	}
	t.Logf("HOT share of %0.f renewals: %.1f %%", updates, 100*hot/updates)
	require.Greater(t, hot/updates, 0.95)
}

func BenchmarkHeartbeat(b *testing.B) {
	for _, n := range []int{1, 128, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := open(b, migrated(b))
			beats := sessions(b, s, n)
			b.ResetTimer()
			for b.Loop() {
				if _, err := s.Heartbeat(context.Background(), beats, false); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "renewals/s")
		})
	}
}
