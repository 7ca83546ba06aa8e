package replicas_test

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/forgeyard/concurrency/authority/store/postgres/pgtest"
	"github.com/forgeyard/concurrency/e2e/cluster"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/sidecar"
	"github.com/forgeyard/concurrency/sidecar/client"
)

// pooledSite is one whose replicas reach Postgres through a pooler in
// transaction mode, and listen past it.
func pooledSite(t *testing.T) *site {
	t.Helper()
	s := newDatabase(t)
	port := pgtest.Bouncer(t, uint16(s.postgres.Port))
	s.serve(func(int) cluster.Serving {
		return cluster.Serving{PostgresURL: s.through(port), ListenURL: s.url}
	})
	return s
}

// through is Postgres behind something that listens on another port.
func (s *site) through(port int) string {
	return strings.Replace(s.url, strconv.Itoa(s.postgres.Port), strconv.Itoa(port), 1)
}

// FC-53: fifty controllers of ten nodes wait for one scope. Waiting is asking
// again: no transaction stays open, and no connection is kept. When the holder
// lets go one of them has it.
func TestFC53_FiftyWaitersHoldNoTransaction(t *testing.T) {
	s := pooledSite(t)
	f := s.start(11, 1, brisk())
	scope := environment(t, "wanted")
	held, err := f.members[0].client.Acquire(t.Context(), scope)
	require.NoError(t, err)
	granted := make(chan struct{}, 50)
	var waiters errgroup.Group
	ctx, stop := context.WithCancel(t.Context())
	for i := range 50 {
		waiters.Go(func() error {
			h, err := f.members[1+i%10].client.Acquire(ctx, scope, client.Wait(2*time.Minute))
			if err != nil {
				return nil // the test ended
			}
			granted <- struct{}{}
			_, err = h.Release(context.WithoutCancel(ctx))
			return err
		})
	}
	elapse(t, time.Second) // all of them have asked
	oldest, idle, polls := time.Duration(0), 0, 0
	for began := time.Now(); time.Since(began) < 5*time.Second; polls++ {
		var inTransaction int
		var longest time.Duration
		s.query(`SELECT count(*) FILTER (WHERE state = 'idle in transaction' AND state_change < clock_timestamp() - interval '500 milliseconds'),
			coalesce(max(clock_timestamp() - xact_start), '0') FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`,
			&inTransaction, &longest)
		idle, oldest = idle+inTransaction, max(oldest, longest)
	}
	require.Empty(t, granted)
	_, err = held.Release(t.Context())
	require.NoError(t, err)
	began := time.Now()
	for range 10 {
		<-granted
	}
	t.Logf("50 waiters, %d looks: %d idle in a transaction, oldest transaction %s; ten of them had the scope within %s of its release",
		polls, idle, oldest.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	stop()
	require.NoError(t, waiters.Wait())
	require.Zero(t, idle)
	require.Less(t, oldest, time.Second)
}

// A person ends a lease through one replica; the node is connected to another,
// and hears of it long before its next heartbeat, also when both speak to
// Postgres through a pooler.
func TestAForceReleaseCrossesReplicas(t *testing.T) {
	s := pooledSite(t)
	session := sidecar.DefaultConfig().Session
	session.Interval = 6 * time.Second
	f := s.start(12, 1, session)
	at := f.uplinks()
	s.shown(f, at)
	var slowest time.Duration
	crossed := 0
	for i, m := range f.members {
		if at[i] == s.replicas[0].Nodes {
			continue
		}
		crossed++
		k := m.keeps[0]
		k.mu.Lock()
		held := k.hold
		k.mu.Unlock()
		s.forgeyard("concurrency", "force-release", k.scope.String(), "--epoch", held.Token().String(), "--reason", "test")
		began := time.Now()
		select {
		case <-held.Context().Done():
		case <-time.After(session.TTL):
			t.Fatalf("%s was not told", m.node)
		}
		slowest = max(slowest, time.Since(began))
	}
	require.NotZero(t, crossed)
	t.Logf("%d leases ended through another replica: the last controller knew %s after the command (heartbeats each %s)",
		crossed, slowest.Round(time.Millisecond), session.Interval)
	require.Less(t, slowest, session.Interval/2)
	var listeners int
	s.query(`SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'`, &listeners)
	require.Equal(t, len(s.replicas), listeners, "one direct connection for each replica")
}

// shown compares what the first replica says of every node's connection with
// what the nodes say.
func (s *site) shown(f *fleet, at []string) {
	s.t.Helper()
	people := map[string]string{}
	for _, a := range s.replicas {
		people[a.Nodes] = a.People
	}
	list := &pb.ListNodesResponse{}
	require.NoError(s.t, protojson.Unmarshal(s.forgeyard("concurrency", "nodes", "-o", "json"), list))
	want, got := map[string]string{}, map[string]string{}
	for i, m := range f.members {
		want[m.node] = people[at[i]]
	}
	for _, n := range list.GetNodes() {
		require.True(s.t, n.GetConnected(), n.GetName())
		got[n.GetName()] = n.GetVia()
	}
	require.Equal(s.t, want, got)
}

// forgeyard runs the command for people against the first replica.
func (s *site) forgeyard(args ...string) []byte {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), s.opts.Bin+"/forgeyard", args...)
	cmd.Env = append(os.Environ(), "FORGEYARD_CONFIG="+s.replicas[0].OperatorConfig)
	out, err := cmd.CombinedOutput()
	require.NoError(s.t, err, "%s", out)
	return out
}
