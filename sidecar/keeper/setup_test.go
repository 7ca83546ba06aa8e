package keeper_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"github.com/forgeyard/concurrency/shared/clock/clocktest"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/sidecar/cache"
	"github.com/forgeyard/concurrency/sidecar/gate"
	"github.com/forgeyard/concurrency/sidecar/journal"
	"github.com/forgeyard/concurrency/sidecar/keeper"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

const (
	patience = 20 * time.Second // of real time, for what must happen
	session  = "01JF8Z6M00000000000SESSION"
	bootID   = "boot-1"
)

// bench is one keeper over real files, a real gate and a clock that moves only
// when told to; the test is its authority.
type bench struct {
	t       *testing.T
	dir     string
	clock   *clocktest.Manual
	gate    *watchedGate
	link    *link
	keeper  *keeper.Keeper
	budget  lease.Budget
	cache   *cache.Cache
	journal *journal.Journal
	lock    *cache.Lock
	alive   bool // what Alive says of every process
	boot    string
	version uint64
	stop    func()
}

func setup(t *testing.T) *bench {
	t.Helper()
	b := prepare(t)
	b.start()
	b.register(false)
	return b
}

// prepare does not start it yet.
func prepare(t *testing.T) *bench {
	b := &bench{t: t, dir: t.TempDir(), clock: clocktest.New(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)), budget: lease.DefaultBudget(), alive: true, boot: bootID}
	t.Cleanup(func() { b.stop() })
	b.stop = func() {}
	return b
}

// start runs a process on the files.
func (b *bench) start() {
	t, log := b.t, zaptest.NewLogger(b.t)
	var err error
	b.lock, err = cache.Acquire(filepath.Join(b.dir, "lock"))
	require.NoError(t, err)
	b.cache, _, err = cache.Open(cache.Config{Dir: b.dir, Now: b.clock.Now()})
	require.NoError(t, err)
	b.journal, err = journal.Open(journal.Config{Path: filepath.Join(b.dir, "journal.db"), Clock: b.clock, Log: log})
	require.NoError(t, err)
	b.gate = &watchedGate{Gate: gate.New(b.clock), over: map[ownership.Key]bool{}, t: t}
	b.link = newLink(t)
	b.keeper, err = keeper.New(keeper.Config{
		Node: "node-a", BootID: b.boot, Budget: b.budget, SettleTimeout: 30 * time.Second, Cache: b.cache, LockFile: b.lock.ID(),
		Gate: b.gate, Effects: b.journal, Clock: b.clock, Log: log, Registerer: prometheus.NewRegistry(),
		Alive: func(int, uint64) bool { return b.alive },
	}, "nonce-"+b.clock.Now().String())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = b.keeper.Run(ctx, b.link) }) // it ends with ctx
	b.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		require.NoError(t, b.journal.Close())
		require.NoError(t, b.cache.Close())
		require.NoError(t, b.lock.Close())
	})
}

// restart is a new process on the same files.
func (b *bench) restart() {
	b.stop()
	b.start()
}

// register gives it the session; the first fetch and heartbeat wait.
func (b *bench) register(resumed bool) {
	b.t.Helper()
	require.NoError(b.t, b.keeper.Registered(b.t.Context(), keeper.Registered{
		Session: session, Resumed: resumed, AuthorityID: "A", LockDelay: b.budget.LockDelay, SentAt: b.clock.Boot(),
	}))
	if b.version == 0 {
		b.version = 1
	}
	if !resumed {
		b.answerSet()
		b.beat()
		b.confirmed()
	}
}

// confirmed waits for the loop to have the confirmation of this moment.
func (b *bench) confirmed() {
	b.t.Helper()
	b.eventually(func() bool { return b.keeper.Status().ConfirmedAgo == 0 }, "the session was not confirmed")
}

func (b *bench) at() lease.SetVersion { return lease.SetVersion{Generation: 1, Version: b.version} }

// answerSet answers the next fetch with these leases.
func (b *bench) answerSet(leases ...lease.Lease) {
	b.t.Helper()
	set := keeper.Set{Version: b.at(), Remaining: b.budget.TTL}
	for _, l := range leases {
		set.Leases = append(set.Leases, keeper.SetLease{Lease: l, OwnRemaining: -1})
	}
	b.link.next(fetches).set(set)
	b.eventually(func() bool { return b.keeper.Status().Version == set.Version }, "the set was not applied")
}

// eventually turns the loop until cond holds.
func (b *bench) eventually(cond func() bool, problem string) {
	b.t.Helper()
	for end := time.Now().Add(patience); !cond(); b.turn() {
		if time.Now().After(end) {
			require.FailNow(b.t, problem)
		}
	}
}

// beat confirms the next heartbeat.
func (b *bench) beat() {
	b.t.Helper()
	b.link.next(beats).answer(b.renewed())
}

func (b *bench) renewed() lease.Answer {
	return lease.Answer{Code: lease.Renewed, Version: b.at(), Remaining: b.budget.TTL}
}

// advance lets time pass and the loop see it.
func (b *bench) advance(d time.Duration) {
	b.t.Helper()
	b.clock.Advance(d)
	b.turn()
}

// turn makes the loop look at the clocks.
func (b *bench) turn() {
	b.t.Helper()
	_, err := b.keeper.Holds(b.t.Context())
	require.NoError(b.t, err)
}

func prod(t *testing.T) scope.Scope {
	t.Helper()
	s, err := scope.Parse("acme/environment:prod")
	require.NoError(t, err)
	return s
}

func (b *bench) request() keeper.Request {
	return keeper.Request{
		Scope: prod(b.t), Holder: lease.Holder{Kind: lease.HolderController, ID: "deployer"}, UID: 1000, Binding: keeper.Binding{Stream: true},
	}
}

// granted asks for a scope and grants it; the claim waits.
func (b *bench) granted(r keeper.Request) (ownership.Key, lease.Lease) {
	b.t.Helper()
	key, _, err := b.keeper.Start(b.t.Context(), r)
	require.NoError(b.t, err)
	c := b.link.next(acquires)
	b.version++
	l := lease.Lease{
		ID: c.command.Acquire.Lease, Scope: r.Scope, Exclusive: true, Slots: []int{0}, Holder: r.Holder, Session: session, Node: "node-a", Epoch: 7, State: lease.Granted,
	}
	c.answer(lease.Answer{Code: lease.Acquired, Lease: &l, Version: b.at(), Epoch: l.Epoch, Receipt: []byte("seal")})
	return key, l
}

// own takes a scope all the way.
func (b *bench) own(r keeper.Request) (ownership.Key, lease.Lease) {
	b.t.Helper()
	key, l := b.granted(r)
	l.State = lease.Live
	b.link.next(claims).answer(lease.Answer{Code: lease.Claimed, Lease: &l, Version: b.at(), Epoch: l.Epoch, Remaining: b.budget.TTL})
	b.until(key, ownership.Owned)
	return key, l
}

// until waits for a state.
func (b *bench) until(key ownership.Key, s ownership.State) ownership.Term {
	b.t.Helper()
	return b.untilTerm(key, func(t ownership.Term) bool { return t.State == s })
}

// untilTerm waits for a term.
func (b *bench) untilTerm(key ownership.Key, want func(ownership.Term) bool) ownership.Term {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	terms, err := b.keeper.Watch(ctx, key)
	require.NoError(b.t, err)
	var last ownership.Term
	for t := range terms {
		if want(t) {
			return t
		}
		last = t
	}
	require.FailNow(b.t, "the hold never got there", "it is %s (%s, %s)", last.State, last.Reason, last.Detail)
	return last
}

// term is what the gate has of a hold.
func (b *bench) term(key ownership.Key) ownership.Term { return b.gate.View().Holds[key].Term }

// watchedGate fails the test when a hold that was over is published as usable
// again, whatever the test is about (FC-13).
type watchedGate struct {
	*gate.Gate
	t    *testing.T
	mu   sync.Mutex
	over map[ownership.Key]bool
}

func (g *watchedGate) Publish(v *ownership.View) {
	g.mu.Lock()
	for key, e := range v.Holds {
		switch s := e.Term.State; {
		case s == ownership.Releasing || s == ownership.Lost || s == ownership.Unowned:
			g.over[key] = true
		case g.over[key]:
			g.t.Errorf("a hold that was over is %s again", s)
		}
	}
	g.mu.Unlock()
	g.Gate.Publish(v)
}
