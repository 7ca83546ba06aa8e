package engine_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/engine"
	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/authority/store/sqlite"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/clock/clocktest"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

const (
	ttl       = 15 * time.Second
	maxTTL    = 30 * time.Second
	lockDelay = 2500 * time.Millisecond
	interval  = 3 * time.Second
)

var policy = lease.Policy{
	Requirement: lease.Exclusive, MinTTL: 2 * time.Second, MaxTTL: maxTTL,
	LockDelay: lockDelay, ClaimTimeout: 10 * time.Second, OnUncleanEnd: lease.FreeAfter,
}

var sealer = fold.Sealer{Authority: "authority", Key: epoch.ReceiptKey{7}}

// files is where an embedded store lives, so that it can be opened again.
type files struct{ db, memory string }

func newFiles(t testing.TB) files {
	t.Helper()
	return files{db: filepath.Join(t.TempDir(), "a.db"), memory: filepath.Join(t.TempDir(), "memory")}
}

func (f files) open(t testing.TB, clk clock.Clock) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: f.db, MemoryPath: f.memory, Clock: clk, MaxTTL: maxTTL + lockDelay})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func policyOf(scope.Scope) lease.Policy { return policy }

func options(clk clock.Clock) engine.Options {
	return engine.Options{
		Clock: clk, Sealer: sealer, MaxTTL: maxTTL, LockDelay: lockDelay, Interval: interval,
		Incarnation: ulid.Make().String(), Metrics: prometheus.NewRegistry(), Policies: policyOf,
	}
}

func start(t testing.TB, s store.Store, o engine.Options) *engine.Engine {
	t.Helper()
	e := engine.New(s, o)
	require.NoError(t, e.Start(t.Context()))
	t.Cleanup(e.Close)
	return e
}

// world is one engine over a real embedded store with a clock by hand.
type world struct {
	t     *testing.T
	clock *clocktest.Manual
	files files
	store store.Store
	eng   *engine.Engine
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, clock: clocktest.New(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), files: newFiles(t)}
	w.store = w.files.open(t, w.clock)
	w.eng = start(t, w.store, options(w.clock))
	return w
}

// node is a sidecar as the engine sees it.
type node struct {
	name, session, nonce string
	lease                string
	epoch                epoch.Epoch
	beating              bool
}

func id(principal string) store.Command {
	return store.Command{ID: ulid.Make().String(), Principal: principal, Digest: [32]byte{1}}
}

func environment(t testing.TB, name string) scope.Scope {
	t.Helper()
	s, err := scope.New("acme", scope.Environment, name)
	require.NoError(t, err)
	return s
}

func register(t testing.TB, e *engine.Engine, name string) *node {
	t.Helper()
	n := &node{name: name, nonce: "nonce-" + name, beating: true}
	r, err := e.Do(t.Context(), fold.Command{Command: id(name), Action: fold.Register(lease.RegisterRequest{
		Session: ulid.Make().String(), Node: name, Tenants: []string{"acme"}, Nonce: n.nonce, BootID: "boot", TTL: ttl,
	}, nil)})
	require.NoError(t, err)
	require.Equal(t, lease.Registered, r.Answer.Code, r.Answer.Detail)
	n.session = r.Answer.Session.ID
	return n
}

func acquireAction(n *node, s scope.Scope, leaseID string) fold.Action {
	return fold.Acquire(s, policy, lease.AcquireRequest{
		Session: n.session, Nonce: n.nonce, LeaseID: leaseID,
		Holder: lease.Holder{Kind: lease.HolderController, ID: n.name}, Purpose: lease.Work,
	})
}

// acquire asks once; a grant is claimed and remembered.
func acquire(t testing.TB, e *engine.Engine, n *node, s scope.Scope) lease.Answer {
	t.Helper()
	leaseID := ulid.Make().String()
	r, err := e.Do(t.Context(), fold.Command{Command: id(n.name), Action: acquireAction(n, s, leaseID)})
	require.NoError(t, err)
	if r.Answer.Code != lease.Acquired {
		return r.Answer
	}
	n.lease, n.epoch = leaseID, r.Answer.Epoch
	claimed, err := e.Do(t.Context(), fold.Command{Command: id(n.name), Action: fold.Claim(s, policy, lease.Ref{
		Session: n.session, Nonce: n.nonce, Lease: leaseID, Epoch: n.epoch,
	})})
	require.NoError(t, err)
	require.Equal(t, lease.Claimed, claimed.Answer.Code, claimed.Answer.Detail)
	return r.Answer
}

func beat(t testing.TB, e *engine.Engine, n *node) lease.Answer {
	t.Helper()
	a, err := e.Beat(t.Context(), lease.Beat{Session: n.session, Nonce: n.nonce})
	require.NoError(t, err)
	return a
}

// pass lets time go by as in a running replica: a sweep each second, and the
// heartbeats of the nodes that are beating.
func (w *world) pass(d time.Duration, nodes ...*node) {
	w.t.Helper()
	for range int(d / time.Second) {
		w.clock.Advance(time.Second)
		require.NoError(w.t, w.eng.Renew(w.t.Context()))
		for _, n := range nodes {
			if n.beating {
				require.Equal(w.t, lease.Renewed, beat(w.t, w.eng, n).Code)
			}
		}
	}
}

// live lists the leases of a scope that have not ended.
func (w *world) live(s scope.Scope) []lease.Lease {
	w.t.Helper()
	_, err := w.eng.Do(w.t.Context(), fold.Command{Action: fold.Settle(s, policy)})
	require.NoError(w.t, err)
	out, err := w.store.Leases(context.Background(), store.LeaseFilter{Scope: s, Limit: 10})
	require.NoError(w.t, err)
	return out
}
