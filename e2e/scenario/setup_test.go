package scenario_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store/postgres/pgtest"
	"github.com/forgeyard/concurrency/e2e/cluster"
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

// free is the policy of the scenarios: what an interrupted holder left behind
// needs no inspection, so that the next one need not wait for a person.
func free() map[string]any {
	return map[string]any{"version": 1, "rules": []any{map[string]any{"match": "acme/*", "why": "scenarios", "on_unclean_end": "free"}}}
}

// quick is a session with the least ttl.
func quick() cluster.Session {
	return cluster.Session{
		TTL: 2 * time.Second, Interval: 300 * time.Millisecond, UncertainAfter: 800 * time.Millisecond,
		KillGrace: 300 * time.Millisecond, Margin: 600 * time.Millisecond,
	}
}

type bench struct {
	t         *testing.T
	opts      cluster.Options
	authority *cluster.Authority
}

// start serves an authority on the store named sqlite or postgres.
func start(t *testing.T, store string) *bench {
	t.Helper()
	url := ""
	if store == "postgres" {
		url = pgtest.Database(t)
	}
	return serveOn(t, url)
}

// serveOn serves an authority on a Postgres database, or, without one, on the
// embedded store.
func serveOn(t *testing.T, postgresURL string) *bench {
	t.Helper()
	return serve(t, cluster.Serving{Policy: free(), PostgresURL: postgresURL})
}

func serve(t *testing.T, serving cluster.Serving) *bench {
	t.Helper()
	bin, err := programs()
	require.NoError(t, err)
	dir, err := os.MkdirTemp("/tmp", "fy-")
	require.NoError(t, err)
	b := &bench{t: t, opts: cluster.Options{Bin: bin, Dir: dir}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs are kept in %s", dir)
			return
		}
		require.NoError(t, os.RemoveAll(dir))
	})
	b.authority, err = cluster.ServeAuthority(t.Context(), b.opts, serving)
	require.NoError(t, err)
	t.Cleanup(func() { b.authority.Stop() })
	return b
}

func (b *bench) sidecar(c cluster.SidecarConfig) *cluster.Sidecar {
	b.t.Helper()
	s, err := cluster.StartSidecar(b.t.Context(), b.opts, b.authority, c)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { s.Kill() })
	return s
}

// within bounds a wait.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, fmt.Errorf("not within %s", d))
	t.Cleanup(cancel)
	return ctx
}
