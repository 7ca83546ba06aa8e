package feed_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/authority/feed"
	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/authority/store/postgres"
	"github.com/forgeyard/concurrency/authority/store/postgres/pgtest"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/lease"
)

// nodes are those that are connected to one replica.
type nodes struct {
	here map[string]bool // by session
	told chan fold.Moved
}

func newNodes(here ...string) nodes {
	n := nodes{here: map[string]bool{}, told: make(chan fold.Moved, 4096)}
	for _, s := range here {
		n.here[s] = true
	}
	return n
}

// Nudge implements feed.Nudger.
func (n nodes) Nudge(moved []fold.Moved) (elsewhere []fold.Moved) {
	for _, m := range moved {
		if n.here[m.Session] {
			n.told <- m
			continue
		}
		elsewhere = append(elsewhere, m)
	}
	return elsewhere
}

func moved(session string, version uint64) fold.Moved {
	return fold.Moved{Session: session, Node: "node-of-" + session, Version: lease.SetVersion{Generation: 3, Version: version}}
}

// watched tells when a replica listens.
type watched struct {
	feed.Notices
	ready chan struct{}
}

// Listen implements feed.Notices.
func (w watched) Listen(ctx context.Context, ready func(), heard func(string)) error {
	return w.Notices.Listen(ctx, func() { ready(); w.ready <- struct{}{} }, heard)
}

// replica runs a feed with a store of its own until the test ends.
func replica(t *testing.T, url, listenURL string, n nodes) (*feed.Feed, chan struct{}) {
	t.Helper()
	s, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 2, MaxTTL: time.Minute})
	require.NoError(t, err)
	ready := make(chan struct{}, 16)
	f := feed.New(feed.Config{
		Notices: watched{s.Notices(listenURL), ready}, Nudger: n, Clock: clock.System(), Log: zap.NewNop(), Metrics: prometheus.NewRegistry(),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		s.Close()
	})
	return f, ready
}

func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatal("nothing came within 20 s")
		panic("unreachable")
	}
}

func migrated(t *testing.T) string {
	t.Helper()
	url := pgtest.Database(t)
	require.NoError(t, postgres.Migrate(t.Context(), url))
	return url
}

func TestAHintReachesTheNodeOfAnotherReplica(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	first, second := newNodes("s1"), newNodes("s2")
	f, ready := replica(t, url, "", first)
	_, ready2 := replica(t, url, "", second)
	receive(t, ready)
	receive(t, ready2)
	f.Moved([]fold.Moved{moved("s1", 4), moved("s2", 7), moved("nobody", 1)})
	require.Equal(t, moved("s1", 4), receive(t, first.told))
	require.Equal(t, moved("s2", 7), receive(t, second.told))
	require.Empty(t, first.told, "what is connected here is told once")
}

// Many sessions make few texts, each within what a notice may have; of one
// session the newest version goes.
func TestHintsAreGatheredIntoTextsThatFit(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf("01JF8Z6M%018d", i)
	}
	second := newNodes(many...)
	f, _ := replica(t, url, "", newNodes())
	_, ready := replica(t, url, "", second)
	receive(t, ready)
	var all []fold.Moved
	for _, s := range many {
		for _, v := range []uint64{2, 9, 5} {
			m := moved(s, v)
			m.Node = strings.Repeat("n", 63)
			all = append(all, m)
		}
	}
	f.Moved(all)
	for range many {
		require.Equal(t, uint64(9), receive(t, second.told).Version.Version)
	}
	require.Empty(t, second.told)
}

func TestALostListeningConnectionIsMadeAgain(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	second := newNodes("s2")
	f, _ := replica(t, url, "", newNodes())
	_, ready := replica(t, url, "", second)
	receive(t, ready)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE 'LISTEN%'`)
	require.NoError(t, err)
	receive(t, ready)
	f.Moved([]fold.Moved{moved("s2", 8)})
	require.Equal(t, moved("s2", 8), receive(t, second.told))
}

// A text of another version is not understood, and stops nothing.
func TestATextThatIsNotUnderstoodIsLeftOut(t *testing.T) {
	t.Parallel()
	url := migrated(t)
	second := newNodes("s2")
	f, _ := replica(t, url, "", newNodes())
	_, ready := replica(t, url, "", second)
	receive(t, ready)
	s, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	require.NoError(t, s.Notices("").Notify(t.Context(), []string{"{", `[{"s":"s2","n":"n","g":1,"v":2,"later":true}]`}))
	require.Equal(t, uint64(2), receive(t, second.told).Version.Version)
	f.Moved([]fold.Moved{moved("s2", 8)})
	require.Equal(t, moved("s2", 8), receive(t, second.told))
}

// One replica alone, as with the embedded store, sends nothing.
func TestWithoutNoticesOnlyTheNodesHereAreTold(t *testing.T) {
	t.Parallel()
	n := newNodes("s1")
	f := feed.New(feed.Config{Nudger: n, Metrics: prometheus.NewRegistry()})
	f.Moved([]fold.Moved{moved("s1", 2), moved("s2", 2)})
	require.Equal(t, moved("s1", 2), receive(t, n.told))
	f.Run(t.Context()) // returns
}
