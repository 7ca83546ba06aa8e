package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/engine"
	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/lease"
)

// faulty is a real store whose answers go wrong as told.
type faulty struct {
	store.Store
	transact  func(run func() error) error // nil: as it is
	heartbeat func(beats []lease.Beat, wait bool, run func() (store.Beats, error)) (store.Beats, error)
	identity  atomic.Pointer[store.Identity]
	enlisted  atomic.Int32
}

func (f *faulty) Transact(ctx context.Context, b store.Batch, decide func(store.Loaded) (store.Changes, error)) error {
	run := func() error {
		return f.Store.Transact(ctx, b, func(l store.Loaded) (store.Changes, error) {
			l.Identity = f.seen(l.Identity)
			return decide(l)
		})
	}
	if f.transact == nil {
		return run()
	}
	return f.transact(run)
}

func (f *faulty) Heartbeat(ctx context.Context, beats []lease.Beat, wait bool) (store.Beats, error) {
	run := func() (store.Beats, error) {
		got, err := f.Store.Heartbeat(ctx, beats, wait)
		got.Identity = f.seen(got.Identity)
		return got, err
	}
	if f.heartbeat == nil {
		return run()
	}
	return f.heartbeat(beats, wait, run)
}

func (f *faulty) Enlist(ctx context.Context, inc store.Incarnation) (store.Standing, error) {
	f.enlisted.Add(1)
	st, err := f.Store.Enlist(ctx, inc)
	st.Identity = f.seen(st.Identity)
	return st, err
}

// seen stands for a promotion to another timeline.
func (f *faulty) seen(real store.Identity) store.Identity {
	if as := f.identity.Load(); as != nil {
		return *as
	}
	return real
}

func TestFC55_CommitLandedAndTheAnswerWasLost(t *testing.T) {
	t.Parallel()
	lost := atomic.Int32{}
	s := &faulty{Store: newFiles(t).open(t, clock.System())}
	e := start(t, s, options(clock.System()))
	n := register(t, e, "node-a")
	s.transact = func(run func() error) error {
		if err := run(); err != nil {
			return err
		}
		if lost.Add(1) <= 3 {
			return store.ErrOutcomeUnknown
		}
		return nil
	}
	command := fold.Command{Command: id("node-a"), Action: acquireAction(n, environment(t, "prod"), ulid.Make().String())}
	r, err := e.Do(t.Context(), command)
	require.NoError(t, err)
	require.Equal(t, lease.Acquired, r.Answer.Code)
	require.True(t, r.Replayed, "the first attempt had landed")
	require.Equal(t, int32(4), lost.Load())
}

func TestFC55_CallerGoneReplayAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	where := newFiles(t)
	real := where.open(t, clock.System())
	s := &faulty{Store: real}
	e := start(t, s, options(clock.System()))
	n := register(t, e, "node-a")

	committed, answer := make(chan struct{}), make(chan struct{})
	s.transact = func(run func() error) error {
		err := run()
		close(committed)
		<-answer
		return err
	}
	prod := environment(t, "prod")
	command := fold.Command{Command: id("node-a"), Action: acquireAction(n, prod, ulid.Make().String())}
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := e.Do(ctx, command)
		gone <- err
	}()
	<-committed
	cancel()
	require.ErrorIs(t, <-gone, context.Canceled)
	s.transact = nil
	close(answer)

	first, err := e.Do(t.Context(), command)
	require.NoError(t, err)
	require.True(t, first.Replayed)
	require.Equal(t, lease.Acquired, first.Answer.Code)
	require.Zero(t, first.Answer.Remaining)

	e.Close()
	require.NoError(t, real.Close())
	e = start(t, where.open(t, clock.System()), options(clock.System()))
	again, err := e.Do(t.Context(), command)
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, first.Answer.Epoch, again.Answer.Epoch)

	command.Digest[0]++
	conflict, err := e.Do(t.Context(), command)
	require.NoError(t, err)
	require.Equal(t, lease.KeyConflict, conflict.Answer.Reason)
}

func TestCommandsGatherWhileOneTransactionIsInFlight(t *testing.T) {
	t.Parallel()
	s := &faulty{Store: newFiles(t).open(t, clock.System())}
	o := options(clock.System())
	sizes := make(chan int, 64)
	o.Committed = func(cmds []fold.Command, _ fold.Outcome) { sizes <- len(cmds) }
	e := start(t, s, o)
	n := register(t, e, "node-a")
	<-sizes

	entered, proceed := make(chan struct{}, 64), make(chan struct{})
	s.transact = func(run func() error) error {
		entered <- struct{}{}
		<-proceed
		return run()
	}
	const callers = 20
	twin := fold.Command{Command: id("node-a"), Action: acquireAction(n, environment(t, "twin"), ulid.Make().String())}
	results := make(chan fold.Result, callers)
	ask := func(c fold.Command) {
		r, err := e.Do(context.Background(), c)
		if err == nil {
			results <- r
		}
	}
	go ask(fold.Command{Command: id("node-a"), Action: acquireAction(n, environment(t, "first"), ulid.Make().String())})
	<-entered
	for i := range callers - 1 {
		c := twin
		if i > 1 {
			c = fold.Command{Command: id("node-a"), Action: acquireAction(n, environment(t, "s"+ulid.Make().String()), ulid.Make().String())}
		}
		go ask(c)
	}
	waitQueued(t, e, callers-1)
	close(proceed)
	replayed := 0
	for range callers {
		r := <-results
		require.Equal(t, lease.Acquired, r.Answer.Code)
		if r.Replayed {
			replayed++
		}
	}
	require.Equal(t, 1, replayed, "two calls with one id: one ran, one was told")
	require.Equal(t, 1, <-sizes)
	require.Equal(t, callers-2, <-sizes, "all that gathered but the twin")
	require.Equal(t, 1, <-sizes, "the twin finds the stored answer")
}

func waitQueued(t *testing.T, e *engine.Engine, n int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for e.Queued() < n {
		require.True(t, time.Now().Before(deadline), "commands were not queued")
	}
}

func TestConflictOfOneCommandDoesNotFailTheOthers(t *testing.T) {
	t.Parallel()
	bad := environment(t, "locked")
	o := options(clock.System())
	o.Attempts, o.Backoff = 2, time.Millisecond
	e := start(t, &conflicting{Store: newFiles(t).open(t, clock.System()), scope: bad.String()}, o)
	n := register(t, e, "node-a")

	results := make(chan error, 8)
	for i := range 8 {
		sc := environment(t, "s"+string(rune('a'+i)))
		if i == 5 {
			sc = bad
		}
		go func() {
			_, err := e.Do(context.Background(), fold.Command{Command: id("node-a"), Action: acquireAction(n, sc, ulid.Make().String())})
			results <- err
		}()
	}
	failed := 0
	for range 8 {
		if err := <-results; err != nil {
			require.ErrorIs(t, err, store.ErrConflict)
			failed++
		}
	}
	require.Equal(t, 1, failed)
}

// conflicting fails every batch that touches one scope.
type conflicting struct {
	store.Store
	scope string
}

func (c *conflicting) Transact(ctx context.Context, b store.Batch, decide func(store.Loaded) (store.Changes, error)) error {
	for _, s := range b.Scopes {
		if s.String() == c.scope {
			return store.ErrConflict
		}
	}
	return c.Store.Transact(ctx, b, decide)
}

func TestFC106_LockedSessionRowDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	s := &faulty{Store: newFiles(t).open(t, clock.System())}
	e := start(t, s, options(clock.System()))
	locked, free := register(t, e, "node-a"), register(t, e, "node-b")
	unlock := make(chan struct{})
	s.heartbeat = func(beats []lease.Beat, wait bool, run func() (store.Beats, error)) (store.Beats, error) {
		if wait {
			<-unlock
			return run()
		}
		got, err := run()
		for i, b := range beats {
			if b.Session == locked.session {
				got.Pulses[i] = store.Pulse{Skipped: true}
			}
		}
		return got, err
	}
	late := make(chan lease.Answer, 1)
	go func() {
		a, err := e.Beat(context.Background(), lease.Beat{Session: locked.session, Nonce: locked.nonce})
		if err == nil {
			late <- a
		}
	}()
	for range 10 {
		require.Equal(t, lease.Renewed, beat(t, e, free).Code)
	}
	require.Empty(t, late)
	close(unlock)
	require.Equal(t, lease.Renewed, (<-late).Code)
}

func TestOverloadIsSaidNotSuffered(t *testing.T) {
	t.Parallel()
	s := &faulty{Store: newFiles(t).open(t, clock.System())}
	o := options(clock.System())
	o.Queue = 2
	e := start(t, s, o)
	n := register(t, e, "node-a")
	entered, proceed := make(chan struct{}, 8), make(chan struct{})
	s.transact = func(run func() error) error {
		entered <- struct{}{}
		<-proceed
		return run()
	}
	ask := func() error {
		_, err := e.Do(context.Background(), fold.Command{Command: id("node-a"), Action: acquireAction(n, environment(t, "x"), ulid.Make().String())})
		return err
	}
	done := make(chan error, 3)
	go func() { done <- ask() }()
	<-entered
	go func() { done <- ask() }()
	go func() { done <- ask() }()
	waitQueued(t, e, 2)
	require.ErrorIs(t, ask(), engine.ErrOverloaded)
	close(proceed)
	for range 3 {
		require.NoError(t, <-done)
	}
	e.Close()
	require.ErrorIs(t, ask(), engine.ErrClosed)
}
