package replicas_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store/postgres/pgtest"
	"github.com/forgeyard/concurrency/e2e/cluster"
	"github.com/forgeyard/concurrency/sidecar"
)

// programs are built once for the test process.
var programs = sync.OnceValues(func() (string, error) {
	dir := ""
	if os.Getenv(cluster.EnvBin) == "" {
		var err error
		if dir, err = os.MkdirTemp("", "forgeyard-bin-"); err != nil {
			return "", err
		}
	}
	return cluster.Programs(dir)
})

// brisk is a session that a test can outwait.
func brisk() sidecar.SessionConfig {
	return sidecar.SessionConfig{
		TTL: 6 * time.Second, Interval: time.Second, UncertainAfter: 3 * time.Second, KillGrace: 500 * time.Millisecond, Margin: time.Second,
	}
}

// steady is one for hundreds of sidecars that share two cores with their
// authorities: ten seconds is what such a machine can starve nobody for.
func steady() sidecar.SessionConfig {
	return sidecar.SessionConfig{
		TTL: 10 * time.Second, Interval: 2 * time.Second, UncertainAfter: 6 * time.Second, KillGrace: time.Second, Margin: time.Second,
	}
}

// site is three authorities on one Postgres.
type site struct {
	t        *testing.T
	dir      string
	disks    string // of the sidecars
	opts     cluster.Options
	postgres *pgtest.Server
	url      string
	replicas []*cluster.Authority
}

const lockDelay = 2500 * time.Millisecond // the default

func newSite(t *testing.T) *site {
	t.Helper()
	s := newDatabase(t)
	s.serve(func(int) cluster.Serving { return cluster.Serving{PostgresURL: s.url} })
	return s
}

// newDatabase is a site without authorities.
func newDatabase(t *testing.T) *site {
	t.Helper()
	bin, err := programs()
	require.NoError(t, err)
	dir, err := os.MkdirTemp("/tmp", "fy-")
	require.NoError(t, err)
	// Each sidecar has a disk of its own in the field: hundreds of them that sync
	// one shared disk would measure nothing but that.
	memory := "/dev/shm"
	if _, err := os.Stat(memory); err != nil {
		memory = dir
	}
	disks, err := os.MkdirTemp(memory, "fy-")
	require.NoError(t, err)
	s := &site{t: t, dir: dir, disks: disks, opts: cluster.Options{Bin: bin, Dir: dir}}
	t.Cleanup(func() {
		require.NoError(t, os.RemoveAll(disks))
		if t.Failed() {
			t.Logf("logs are kept in %s", dir)
			return
		}
		require.NoError(t, os.RemoveAll(dir))
	})
	s.postgres, err = pgtest.New(t.Context(), pgtest.Options{})
	require.NoError(t, err)
	t.Cleanup(s.postgres.Stop)
	s.url = s.postgres.URL("postgres")
	return s
}

// serve starts the replicas.
func (s *site) serve(how func(replica int) cluster.Serving) {
	s.t.Helper()
	for i := range 3 {
		serving := how(i)
		serving.Policy = map[string]any{
			"version": 1, "rules": []any{map[string]any{"match": "acme/*", "why": "scenarios", "on_unclean_end": "free"}},
		}
		if serving.Replica = i; i > 0 {
			serving.Of = s.replicas[0]
		}
		a, err := cluster.ServeAuthority(s.t.Context(), s.opts, serving)
		require.NoError(s.t, err)
		s.t.Cleanup(func() { a.Kill() })
		s.replicas = append(s.replicas, a)
	}
}

func (s *site) addresses() []string {
	var out []string
	for _, a := range s.replicas {
		out = append(out, a.Nodes)
	}
	return out
}

// query asks Postgres itself.
func (s *site) query(sql string, to ...any) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url)
	require.NoError(s.t, err)
	defer conn.Close(ctx)
	require.NoError(s.t, conn.QueryRow(ctx, sql).Scan(to...))
}

// lostLeases counts what ended otherwise than by its own release.
func (s *site) lostLeases() int {
	s.t.Helper()
	var n int
	s.query(`SELECT count(*) FROM lease WHERE state IN ('ended', 'draining') AND end_reason <> 'released'`, &n)
	return n
}

// gaps watches the renewals in Postgres until stop, which returns the longest
// time that any session went without one.
func (s *site) gaps(ttl time.Duration) (stop func() time.Duration) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.url)
	require.NoError(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	longest := make(chan time.Duration, 1)
	go func() {
		defer conn.Close(context.Background())
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		var most time.Duration
		for {
			select {
			case <-ctx.Done():
				longest <- most
				return
			case <-tick.C:
			}
			var left time.Duration
			if err := conn.QueryRow(ctx, `SELECT min(expires_at - clock_timestamp()) FROM session WHERE ended = ''`).Scan(&left); err == nil {
				most = max(most, ttl-left)
			}
		}
	}()
	return func() time.Duration {
		cancel()
		return <-longest
	}
}

// eventually polls until it is true.
func eventually(t *testing.T, within time.Duration, what string, isTrue func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for !isTrue() {
		if time.Since(began) > within {
			require.FailNow(t, fmt.Sprintf("not within %s: %s", within, what))
		}
		<-tick.C
	}
	return time.Since(began)
}

// elapse waits for wall time to go by: what is watched is that nothing happens.
func elapse(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}
