package engine_test

import (
	"os"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/engine"
	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
)

func TestFC98_AnotherIdentityRaisesTheGenerationBeforeAnythingIsDecided(t *testing.T) {
	t.Parallel()
	s := &faulty{Store: newFiles(t).open(t, clock.System())}
	o := options(clock.System())
	o.Backoff = time.Millisecond
	e := start(t, s, o)
	n := register(t, e, "node-a")
	before := e.History()
	old := acquire(t, e, n, environment(t, "one"))

	s.identity.Store(&store.Identity{System: "same", Timeline: "00000002"})
	r, err := e.Do(t.Context(), fold.Command{Command: id("node-a"), Action: acquireAction(n, environment(t, "two"), ulid.Make().String())})
	require.NoError(t, err)
	require.Equal(t, lease.Busy, r.Answer.Code, "who held it in the lost history may still act")
	require.Equal(t, lease.HistoryCut, r.Answer.Reason)
	after := e.History()
	require.Greater(t, after.Generation, before.Generation)
	next, err := epoch.Next(old.Epoch, after.Generation)
	require.NoError(t, err)
	require.Greater(t, next, old.Epoch)
	require.InDelta(t, (maxTTL + lockDelay).Seconds(), after.Pause.Seconds(), 5, "a whole pause")
	require.Equal(t, int32(2), s.enlisted.Load(), "at the start and once for the cut")
}

func TestFC98_HeartbeatOverAnotherIdentityIsNotAnswered(t *testing.T) {
	t.Parallel()
	s := &faulty{Store: newFiles(t).open(t, clock.System())}
	e := start(t, s, options(clock.System()))
	n := register(t, e, "node-a")
	before := e.History().Generation
	s.identity.Store(&store.Identity{System: "same", Timeline: "00000002"})
	_, err := e.Beat(t.Context(), lease.Beat{Session: n.session, Nonce: n.nonce})
	require.ErrorIs(t, err, engine.ErrCut)
	a := beat(t, e, n)
	require.Greater(t, a.Version.Generation, before, "after the raise the node must fetch its set")
}

func TestLostIncarnationRowRaisesTheGeneration(t *testing.T) {
	t.Parallel()
	s := &faulty{Store: newFiles(t).open(t, clock.System())}
	o := options(clock.System())
	e := start(t, s, o)
	before := e.History().Generation
	require.NoError(t, e.Renew(t.Context()))
	require.Equal(t, before, e.History().Generation)

	// Somebody put back a file of before: another process's row is in it.
	_, err := s.Store.Enlist(t.Context(), store.Incarnation{ID: ulid.Make().String(), Live: time.Minute})
	require.NoError(t, err)
	require.NoError(t, e.Renew(t.Context()))
	require.Greater(t, e.History().Generation, before)
	require.NoError(t, e.Renew(t.Context()), "it is enlisted again")
}

func TestFileThatWasPutBackBeginsWithAWholePause(t *testing.T) {
	t.Parallel()
	where := newFiles(t)
	s := where.open(t, clock.System())
	e := start(t, s, options(clock.System()))
	n := register(t, e, "node-a")
	e.Close()
	require.NoError(t, s.Close())
	copied, err := os.ReadFile(where.db)
	require.NoError(t, err)

	s = where.open(t, clock.System())
	e = start(t, s, options(clock.System()))
	prod := environment(t, "prod")
	require.Equal(t, lease.Acquired, acquire(t, e, n, prod).Code, "an ordinary restart pauses nothing that is free")
	e.Close()
	require.NoError(t, s.Close())

	require.NoError(t, os.WriteFile(where.db, copied, 0o600)) // of before the grant
	e = start(t, where.open(t, clock.System()), options(clock.System()))
	got := acquire(t, e, n, prod)
	require.Equal(t, lease.Busy, got.Code, "the lease that was lost may still be held")
	require.Equal(t, lease.HistoryCut, got.Reason)
}
