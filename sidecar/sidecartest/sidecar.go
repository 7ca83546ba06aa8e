package sidecartest

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/cache"
	"github.com/forgeyard/concurrency/sidecar/gate"
	"github.com/forgeyard/concurrency/sidecar/journal"
	"github.com/forgeyard/concurrency/sidecar/keeper"
	"github.com/forgeyard/concurrency/sidecar/localapi"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// Options change a Sidecar.
type Options struct {
	Budget lease.Budget // zero: Quick
	// BaseURLs answers for the proxy; nil: one provider named tracker.
	BaseURLs func(ownership.Key) map[string]string
}

// Quick is the shortest budget that the rules allow.
func Quick() lease.Budget {
	return lease.Budget{
		TTL: 2 * time.Second, Interval: 100 * time.Millisecond, UncertainAfter: 600 * time.Millisecond,
		KillGrace: 400 * time.Millisecond, Margin: 600 * time.Millisecond, LockDelay: 300 * time.Millisecond,
	}
}

// T is what a Sidecar needs of a test. An example brings its own.
type T interface {
	zaptest.TestingT
	Helper()
	Cleanup(func())
}

// Sidecar is a running one.
type Sidecar struct {
	Socket    string
	Authority *Authority
	Journal   *journal.Journal
	Gate      *gate.Gate
	Wake      func() // the authority's hint that scopes are blocked

	t    T
	opts Options
	dir  string
	once sync.Once
	stop func()

	resumes bool // the next start
}

// Start serves until the test ends.
func Start(t T, opts Options) *Sidecar {
	t.Helper()
	if opts.Budget == (lease.Budget{}) {
		opts.Budget = Quick()
	}
	if opts.BaseURLs == nil {
		opts.BaseURLs = func(k ownership.Key) map[string]string {
			return map[string]string{"tracker": "http://127.0.0.1:9/h/" + k.Secret() + "/tracker/"}
		}
	}
	dir, err := os.MkdirTemp("", "fy-local-") // a socket's path must be short
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &Sidecar{t: t, opts: opts, dir: dir, Socket: filepath.Join(dir, "s"), Authority: newAuthority(opts.Budget.TTL)}
	s.Run()
	t.Cleanup(s.Stop)
	return s
}

// Stop ends it like a process that exits; what it held stays at the authority.
func (s *Sidecar) Stop() { s.once.Do(s.stop) }

// Run starts it again on the same files after Stop. It resumes its session.
func (s *Sidecar) Run() {
	t := s.t
	ctx, cancel := context.WithCancel(context.Background())
	log, system := zaptest.NewLogger(t), clock.System()
	c, _, err := cache.Open(cache.Config{Dir: s.dir, Now: system.Now()})
	require.NoError(t, err)
	s.Journal, err = journal.Open(journal.Config{Path: filepath.Join(s.dir, "journal.db"), Clock: system, Log: log})
	require.NoError(t, err)
	s.Gate = gate.New(system)
	boot, err := clock.BootID()
	require.NoError(t, err)
	k, err := keeper.New(keeper.Config{
		Node: "node-a", BootID: boot, Budget: s.opts.Budget, SettleTimeout: time.Second, Cache: c, Gate: s.Gate,
		Effects: s.Journal, Clock: system, Log: log, Registerer: prometheus.NewRegistry(), Alive: localapi.Alive,
	}, rand.Text())
	require.NoError(t, err)
	s.Authority.mu.Lock()
	s.Authority.nudge = k.Nudged
	s.Authority.mu.Unlock()
	l, err := localapi.Listen(s.Socket)
	require.NoError(t, err)
	door := localapi.New(localapi.Config{
		Node: "node-a", Software: "test", Keeper: k, Effects: listed{s.Journal}, BaseURLs: s.opts.BaseURLs, Authority: s.Authority,
		Proxy: func() string { return "127.0.0.1:9" }, Uplink: func() string { return "127.0.0.1:8" }, Clock: system, Log: log,
	})
	s.Wake = door.Wake
	var running sync.WaitGroup
	running.Go(func() { _ = k.Run(ctx, s.Authority) }) // it ends with ctx
	require.NoError(t, k.Registered(ctx, keeper.Registered{Session: session, Resumed: s.resumes, LockDelay: s.opts.Budget.LockDelay, SentAt: system.Boot()}))
	running.Go(func() {
		if err := door.Serve(ctx, l); err != nil && ctx.Err() == nil {
			t.Errorf("serve: %v", err)
		}
	})
	s.once, s.resumes = sync.Once{}, true
	s.stop = func() {
		cancel()
		running.Wait()
		require.NoError(t, s.Journal.Close())
		require.NoError(t, c.Close())
	}
}

// session is the one that every start resumes.
const session = "01JF8Z6M00000000000SESSION"

// listed is the journal as the door asks it.
type listed struct{ *journal.Journal }

// Effects implements localapi.Effects.
func (l listed) Effects(scope, state string, limit int) []effect.Effect {
	return l.List(journal.Filter{Scope: scope, State: effect.State(state), Limit: limit})
}

// Reconcile implements localapi.Effects.
func (l listed) Reconcile(r lease.Resolution) { l.Journal.Reconcile(r.Effect, r.Outcome, r.Seen) }

// Age makes a stopped sidecar's session unconfirmed for longer than any budget.
func (s *Sidecar) Age() {
	c, _, err := cache.Open(cache.Config{Dir: s.dir})
	require.NoError(s.t, err)
	former, ok, err := c.Session()
	require.NoError(s.t, err)
	require.True(s.t, ok, "nothing was stored of the session")
	former.ConfirmedAt = 1
	require.NoError(s.t, c.PutSession(former))
	require.NoError(s.t, c.Close())
}
