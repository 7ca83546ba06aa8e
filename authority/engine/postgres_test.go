package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/engine"
	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/authority/store/postgres"
	"github.com/forgeyard/concurrency/authority/store/postgres/pgtest"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
)

func openPostgres(t testing.TB, url string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxTTL: maxTTL + lockDelay})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// newDatabase is an empty, migrated one.
func newDatabase(t testing.TB) string {
	t.Helper()
	url := pgtest.Database(t)
	require.NoError(t, postgres.Migrate(t.Context(), url))
	return url
}

// replicas are engines over one database.
func replicas(t testing.TB, n int) []*engine.Engine {
	t.Helper()
	url := newDatabase(t)
	out := make([]*engine.Engine, n)
	for i := range out {
		out[i] = start(t, openPostgres(t, url), options(clock.System()))
	}
	return out
}

func TestFC95_OneCommandIDOnTwoReplicasRunsOnce(t *testing.T) {
	t.Parallel()
	pair := replicas(t, 2)
	n := register(t, pair[0], "node-a")
	for i := range 25 {
		s := environment(t, fmt.Sprintf("e%d", i))
		command := fold.Command{Command: id("node-a"), Action: acquireAction(n, s, ulid.Make().String())}
		results := make([]fold.Result, 2)
		errs := make([]error, 2)
		var both sync.WaitGroup
		for j, e := range pair {
			both.Add(1)
			go func() {
				defer both.Done()
				results[j], errs[j] = e.Do(context.Background(), command)
			}()
		}
		both.Wait()
		require.NoError(t, errs[0])
		require.NoError(t, errs[1])
		require.Equal(t, lease.Acquired, results[0].Answer.Code)
		require.Equal(t, results[0].Answer.Epoch, results[1].Answer.Epoch)
		require.NotEqual(t, results[0].Replayed, results[1].Replayed, "one ran, one was told")
	}
}

func TestI1_TwoReplicasNeverGrantOneScopeTwice(t *testing.T) {
	t.Parallel()
	pair := replicas(t, 2)
	a, b := register(t, pair[0], "node-a"), register(t, pair[1], "node-b")
	s := environment(t, "contended")
	var last epoch.Epoch
	for range 25 {
		answers := make([]fold.Result, 2)
		nodes := []*node{a, b}
		ids := []string{ulid.Make().String(), ulid.Make().String()}
		var both sync.WaitGroup
		for j, e := range pair {
			both.Add(1)
			go func() {
				defer both.Done()
				answers[j], _ = e.Do(context.Background(), fold.Command{Command: id(nodes[j].name), Action: acquireAction(nodes[j], s, ids[j])})
			}()
		}
		both.Wait()
		winner := 0
		if answers[1].Answer.Code == lease.Acquired {
			winner = 1
		}
		require.Equal(t, lease.Acquired, answers[winner].Answer.Code)
		require.Equal(t, lease.Busy, answers[1-winner].Answer.Code)
		require.Greater(t, answers[winner].Answer.Epoch, last, "I2")
		last = answers[winner].Answer.Epoch
		r, err := pair[1-winner].Do(t.Context(), fold.Command{Command: id(nodes[winner].name), Action: fold.Release(s, policy, lease.ReleaseRequest{
			Ref: lease.Ref{Session: nodes[winner].session, Nonce: nodes[winner].nonce, Lease: ids[winner], Epoch: last}, Why: lease.Released,
		})})
		require.NoError(t, err)
		require.Equal(t, lease.Done, r.Answer.Code)
	}
}

func TestRaiseOnOneReplicaReachesTheOther(t *testing.T) {
	t.Parallel()
	pair := replicas(t, 2)
	n := register(t, pair[0], "node-a")
	before := acquire(t, pair[0], n, environment(t, "one"))
	witness := fold.Witness{Scope: environment(t, "one"), Policy: policy, Witness: lease.Witness{Epoch: before.Epoch + 1, Node: "node-w"}}
	r, err := pair[1].Do(t.Context(), fold.Command{Command: id("node-w"), Action: fold.Register(lease.RegisterRequest{
		Session: ulid.Make().String(), Node: "node-w", Tenants: []string{"acme"}, Nonce: "x", TTL: ttl,
	}, []fold.Witness{witness})})
	require.NoError(t, err)
	require.Equal(t, lease.Registered, r.Answer.Code)
	after := acquire(t, pair[0], n, environment(t, "two"))
	require.Equal(t, lease.HistoryCut, after.Reason, "the other replica sees the raise in its next transaction and pauses too (FC-94)")
	require.NoError(t, pair[0].Renew(t.Context()))
	require.Greater(t, pair[0].History().Generation, before.Epoch.Generation())
	require.Equal(t, pair[1].History().Generation, pair[0].History().Generation, "one cut, one raise")
}
