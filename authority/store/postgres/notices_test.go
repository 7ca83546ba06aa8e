package postgres_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// BenchmarkNotify shows why a notice is sent after the commit that it speaks
// of: sixteen writers commit rows of their own, without a notice, with one
// within each transaction, and with one after it.
func BenchmarkNotify(b *testing.B) {
	const writers = 16
	row := func(i int) string {
		return fmt.Sprintf(`UPDATE measured SET n = n + 1 WHERE id = %d`, i)
	}
	ways := []struct {
		name string
		ask  func(ctx context.Context, p *pgxpool.Pool, i int) error
	}{
		{"none", func(ctx context.Context, p *pgxpool.Pool, i int) error {
			_, err := p.Exec(ctx, row(i))
			return err
		}},
		{"within", func(ctx context.Context, p *pgxpool.Pool, i int) error {
			_, err := p.Exec(ctx, fmt.Sprintf(`WITH w AS (%s RETURNING id) SELECT pg_notify('measured', id::text) FROM w`, row(i)))
			return err
		}},
		{"after", func(ctx context.Context, p *pgxpool.Pool, i int) error {
			if _, err := p.Exec(ctx, row(i)); err != nil {
				return err
			}
			_, err := p.Exec(ctx, `SELECT set_config('synchronous_commit', 'off', true), pg_notify('measured', $1)`, fmt.Sprint(i))
			return err
		}},
	}
	for _, w := range ways {
		b.Run(w.name, func(b *testing.B) {
			cfg, err := pgxpool.ParseConfig(migrated(b))
			require.NoError(b, err)
			cfg.MaxConns = writers
			pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
			require.NoError(b, err)
			defer pool.Close()
			_, err = pool.Exec(context.Background(), `CREATE TABLE measured AS SELECT i AS id, 0 AS n FROM generate_series(0, 15) AS i`)
			require.NoError(b, err)
			b.ResetTimer()
			var all errgroup.Group
			for i := range writers {
				all.Go(func() error {
					for range max(b.N/writers, 1) {
						if err := w.ask(context.Background(), pool, i); err != nil {
							return err
						}
					}
					return nil
				})
			}
			require.NoError(b, all.Wait())
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
		})
	}
}
