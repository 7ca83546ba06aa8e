package coordinator_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/forgeyard/concurrency/authority/coordinator"
	"github.com/forgeyard/concurrency/authority/engine"
	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/authority/roster"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/authority/store/postgres"
	"github.com/forgeyard/concurrency/authority/store/postgres/pgtest"
	"github.com/forgeyard/concurrency/authority/store/sqlite"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

const (
	ttl       = 2 * time.Second
	lockDelay = time.Second
)

// policies has one for every scope.
type policies struct{}

// For implements coordinator.Policies.
func (policies) For(scope.Scope) (lease.Policy, string) {
	return lease.Policy{
		Requirement: lease.Exclusive, MinTTL: ttl, MaxTTL: time.Minute, LockDelay: lockDelay,
		ClaimTimeout: 10 * time.Second, OnUncleanEnd: lease.FreeAfter,
	}, "test"
}

// bench is one replica without doors, on real time.
type bench struct {
	t           *testing.T
	engine      *engine.Engine
	coordinator *coordinator.Coordinator
	store       store.Store
	commits     atomic.Int64
}

func newBench(t *testing.T, s store.Store) *bench {
	t.Helper()
	b := &bench{t: t, store: s}
	sealer := fold.Sealer{Authority: "authority", Key: epoch.ReceiptKey{7}}
	policyOf := func(s scope.Scope) lease.Policy { p, _ := policies{}.For(s); return p }
	b.engine = engine.New(s, engine.Options{
		Clock: clock.System(), Sealer: sealer, MaxTTL: time.Minute, LockDelay: lockDelay, Interval: 3 * time.Second,
		Incarnation: ulid.Make().String(), Policies: policyOf,
		Committed: func([]fold.Command, fold.Outcome) { b.commits.Add(1) },
	})
	b.coordinator = coordinator.New(coordinator.Config{
		Store: s, Engine: b.engine, Roster: roster.New(time.Second, prometheus.NewRegistry()), Moved: func([]fold.Moved) {},
		Policies: policies{}, Sealer: sealer, Clock: clock.System(), Log: zap.NewNop(), Metrics: prometheus.NewRegistry(),
		MaxTTL: time.Minute, LockDelay: lockDelay,
	})
	require.NoError(t, b.engine.Start(t.Context()))
	t.Cleanup(b.engine.Close)
	return b
}

type node struct{ name, session string }

func (b *bench) register(name string, ttl time.Duration) node {
	b.t.Helper()
	r, err := b.engine.Do(b.t.Context(), fold.Command{Action: fold.Register(lease.RegisterRequest{
		Session: ulid.Make().String(), Node: name, Tenants: []string{"acme"}, Nonce: name, BootID: "boot", TTL: ttl,
	}, nil)})
	require.NoError(b.t, err)
	require.Equal(b.t, lease.Registered, r.Answer.Code, r.Answer.Detail)
	return node{name, r.Answer.Session.ID}
}

func (b *bench) beat(n node) error {
	a, err := b.engine.Beat(context.Background(), lease.Beat{Session: n.session, Nonce: n.name})
	if err == nil && a.Code != lease.Renewed {
		err = fmt.Errorf("%s: %s", a.Code, a.Detail)
	}
	return err
}

// acquire takes and claims; false: it is somebody's still.
func (b *bench) acquire(n node, s scope.Scope) (bool, error) {
	p, _ := policies{}.For(s)
	r, err := b.engine.Do(context.Background(), fold.Command{Action: fold.Acquire(s, p, lease.AcquireRequest{
		Session: n.session, Nonce: n.name, LeaseID: ulid.Make().String(),
		Holder: lease.Holder{Kind: lease.HolderController, ID: n.name}, Purpose: lease.Work,
	})})
	if err != nil || r.Answer.Code != lease.Acquired {
		return false, err
	}
	l := r.Answer.Lease
	_, err = b.engine.Do(context.Background(), fold.Command{Action: fold.Claim(s, p, lease.Ref{
		Session: n.session, Nonce: n.name, Lease: l.ID, Epoch: l.Epoch,
	})})
	return true, err
}

// acquireAll takes every scope for n, asking again as long as it is somebody's,
// and says when the first and the last was granted.
func (b *bench) acquireAll(n node, scopes []scope.Scope) (first, last time.Time) {
	b.t.Helper()
	var mu sync.Mutex
	var all errgroup.Group
	all.SetLimit(256)
	for _, s := range scopes {
		all.Go(func() error {
			for {
				got, err := b.acquire(n, s)
				if err != nil {
					return err
				}
				if got {
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			last = time.Now()
			if first.IsZero() {
				first = last
			}
			return nil
		})
	}
	require.NoError(b.t, all.Wait())
	return first, last
}

// beating renews every node each interval until stop, which returns how long
// the heartbeats took, sorted.
func (b *bench) beating(nodes []node, every time.Duration) (stop func() []time.Duration) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	var took []time.Duration
	var all errgroup.Group
	for i, n := range nodes {
		all.Go(func() error {
			tick := time.NewTimer(time.Duration(i) * every / time.Duration(len(nodes)))
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return nil
				case <-tick.C:
				}
				tick.Reset(every)
				began := time.Now()
				if err := b.beat(n); err != nil {
					return err
				}
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
		})
	}
	return func() []time.Duration {
		cancel()
		require.NoError(b.t, all.Wait())
		slices.Sort(took)
		return took
	}
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)].Round(100 * time.Microsecond)
}

func (b *bench) unended() int {
	b.t.Helper()
	all, err := b.store.Leases(b.t.Context(), store.LeaseFilter{Limit: 100_000})
	require.NoError(b.t, err)
	return len(all)
}

func stores(t *testing.T) map[string]func() store.Store {
	return map[string]func() store.Store{
		"sqlite": func() store.Store {
			s, err := sqlite.Open(t.Context(), sqlite.Config{
				Path: filepath.Join(t.TempDir(), "a.db"), MemoryPath: filepath.Join(t.TempDir(), "memory"), Clock: clock.System(), MaxTTL: time.Minute + lockDelay,
			})
			require.NoError(t, err)
			return s
		},
		"postgres": func() store.Store {
			url := pgtest.Database(t)
			require.NoError(t, postgres.Migrate(t.Context(), url))
			s, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 8, MaxTTL: time.Minute + lockDelay})
			require.NoError(t, err)
			return s
		},
	}
}

// A node with ten thousand leases dies. Its expiry is a predicate over one row:
// nothing is written for a lease before somebody wants its scope, and all of
// them can be granted again at once. What nobody wants is swept in bounded
// rounds, beside which heartbeats go on.
func TestFC09_TenThousandLeasesOfADeadNodeAreGrantedAgainAtOnce(t *testing.T) {
	count := 2_000
	if os.Getenv("LONG") != "" {
		count = 10_000
	}
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) {
			s := open()
			t.Cleanup(func() { s.Close() })
			b := newBench(t, s)
			var scopes []scope.Scope
			for i := range count {
				sc, err := scope.New("acme", scope.Environment, fmt.Sprintf("e%d", i))
				require.NoError(t, err)
				scopes = append(scopes, sc)
			}
			var others []node
			for i := range 100 {
				others = append(others, b.register(fmt.Sprintf("node-%d", i), time.Minute))
			}
			dead, next := b.register("dead", ttl), b.register("next", ttl)
			alive := b.beating([]node{dead, next}, ttl/8)
			b.acquireAll(dead, scopes)
			alive()
			b.grantedAgain(dead, next, scopes)
			b.swept(others, count)
		})
	}
}

// grantedAgain lets next wait for everything that dead held.
func (b *bench) grantedAgain(dead, next node, scopes []scope.Scope) {
	t := b.t
	require.NoError(t, b.beat(dead)) // the last one
	expiry := time.Now().Add(ttl)
	alive := b.beating([]node{next}, ttl/8)
	before := b.commits.Load()
	<-time.NewTimer(time.Until(expiry.Add(lockDelay))).C
	require.Equal(t, len(scopes), b.unended())
	require.Equal(t, before, b.commits.Load(), "nothing was written for the expiry")
	first, last := b.acquireAll(next, scopes)
	alive()
	t.Logf("%d leases: first granted again %s after the expiry, last %s (lock delay %s); %d transactions, none before the first grant",
		len(scopes), first.Sub(expiry).Round(time.Millisecond), last.Sub(expiry).Round(time.Millisecond), lockDelay, b.commits.Load()-before)
	require.Equal(t, len(scopes), b.unended())
}

// swept lets the leases of another silent node end although nobody asks.
func (b *bench) swept(others []node, count int) {
	t := b.t
	quiet := b.beating(others, 500*time.Millisecond)
	<-time.NewTimer(ttl + lockDelay).C // nobody renews the holder any more
	base := quiet()
	before := b.commits.Load()
	busy := b.beating(others, 500*time.Millisecond)
	began, rounds := time.Now(), 0
	for b.unended() > 0 {
		require.Less(t, rounds, 100)
		require.NoError(t, b.coordinator.Sweep(t.Context()))
		rounds++
	}
	took := time.Since(began)
	under := busy()
	t.Logf("%d leases swept in %s: %d rounds, %d transactions; heartbeats of %d nodes: p99 %s, max %s beside it; p99 %s before",
		count, took.Round(time.Millisecond), rounds, b.commits.Load()-before, len(others), quantile(under, 0.99), quantile(under, 1), quantile(base, 0.99))
	require.Less(t, quantile(under, 0.99), time.Second, "heartbeats are not starved")
}
