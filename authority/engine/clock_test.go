package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/lease"
)

// settled is when the pause that begins at the start is over for these nodes.
const settled = ttl + lockDelay + 2*time.Second

func TestFC24_SteppedClockMakesNoSecondOwnerAndNoMassLoss(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]time.Duration{"ahead": time.Hour, "back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			prod := environment(t, "prod")
			a, b := register(t, w.eng, "node-a"), register(t, w.eng, "node-b")
			w.pass(settled, a, b)
			require.Equal(t, lease.Acquired, acquire(t, w.eng, a, prod).Code)
			w.pass(5*time.Second, a, b)

			w.clock.StepWall(step)
			// The very next transaction is the one that must know: the settle of
			// a sweep, then a request of somebody whose heartbeat came through.
			require.Len(t, w.live(prod), 1, "no mass loss")
			beat(t, w.eng, b)
			require.Equal(t, lease.Busy, acquire(t, w.eng, b, prod).Code, "no second owner")
			w.pass(settled, a, b)
			held := w.live(prod)
			require.Len(t, held, 1)
			require.Equal(t, a.epoch, held[0].Epoch, "the holder kept its lease through it all")

			a.beating = false
			w.pass(ttl+lockDelay+time.Second, a, b)
			got := acquire(t, w.eng, b, prod)
			require.Equal(t, lease.Acquired, got.Code, "no hour of standstill: %s", got.Detail)
			require.Greater(t, b.epoch, a.epoch)
		})
	}
}

func TestFC24_DeadHolderDuringAStepIsReplacedAfterThePause(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]time.Duration{"ahead": time.Hour, "back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			prod := environment(t, "prod")
			a, b := register(t, w.eng, "node-a"), register(t, w.eng, "node-b")
			w.pass(settled, a, b)
			acquire(t, w.eng, a, prod)
			a.beating = false
			w.clock.StepWall(step)
			w.pass(ttl, a, b)
			require.Equal(t, lease.Busy, acquire(t, w.eng, b, prod).Code)
			w.pass(lockDelay+2*time.Second, a, b)
			require.Equal(t, lease.Acquired, acquire(t, w.eng, b, prod).Code)
		})
	}
}

func TestFC101_ClockAheadWhileTheReplicaStartsAndCorrectedAfterwards(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	prod := environment(t, "prod")
	a, b := register(t, w.eng, "node-a"), register(t, w.eng, "node-b")
	w.pass(settled, a, b)
	acquire(t, w.eng, a, prod)

	w.eng.Close()
	require.NoError(t, w.store.Close())
	w.clock.StepWall(time.Hour)
	w.clock.Advance(2 * time.Second)
	w.store = w.files.open(t, w.clock)
	w.eng = start(t, w.store, options(w.clock))

	require.Len(t, w.live(prod), 1, "everybody looks expired; nobody is")
	require.Equal(t, lease.Renewed, beat(t, w.eng, b).Code)
	require.Equal(t, lease.Busy, acquire(t, w.eng, b, prod).Code)
	w.pass(3*time.Second, a, b)

	w.clock.StepWall(-time.Hour)
	require.Len(t, w.live(prod), 1, "nor is it after the correction")
	w.pass(settled, a, b)
	held := w.live(prod)
	require.Len(t, held, 1)
	require.Equal(t, a.epoch, held[0].Epoch)

	a.beating = false
	w.pass(ttl+lockDelay+time.Second, a, b)
	require.Equal(t, lease.Acquired, acquire(t, w.eng, b, prod).Code, "no hour of standstill")
}

func TestFC08_ExpiredScopeIsAcquiredWithoutASweeper(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	prod := environment(t, "prod")
	a, b := register(t, w.eng, "node-a"), register(t, w.eng, "node-b")
	w.pass(settled, a, b)
	acquire(t, w.eng, a, prod)
	for range int((ttl + lockDelay) / time.Second) { // only b's heartbeats, nobody sweeps
		w.clock.Advance(time.Second)
		beat(t, w.eng, b)
	}
	require.Equal(t, lease.Busy, acquire(t, w.eng, b, prod).Code)
	w.clock.Advance(time.Second)
	require.Equal(t, lease.Acquired, acquire(t, w.eng, b, prod).Code)
}

func TestFC07_StalledReplicaRevokesNothingThatIsLive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	prod := environment(t, "prod")
	a, b := register(t, w.eng, "node-a"), register(t, w.eng, "node-b")
	w.pass(settled, a, b)
	acquire(t, w.eng, a, prod)
	w.clock.Sleep(3 * ttl) // stopped as a process: nobody could renew through it
	require.Len(t, w.live(prod), 1)
	require.Equal(t, lease.Renewed, beat(t, w.eng, a).Code)
	beat(t, w.eng, b)
	require.Equal(t, lease.Busy, acquire(t, w.eng, b, prod).Code)
}

func TestI2_SteppedClockNeverRepeatsAnEpoch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	prod := environment(t, "prod")
	a := register(t, w.eng, "node-a")
	w.pass(settled, a)
	last := acquire(t, w.eng, a, prod).Epoch
	for _, step := range []time.Duration{time.Hour, -2 * time.Hour} {
		w.clock.StepWall(step)
		w.eng.Close()
		require.NoError(t, w.store.Close())
		w.store = w.files.open(t, w.clock)
		w.eng = start(t, w.store, options(w.clock))
		a.beating = false
		next := register2(t, w, a)
		w.pass(settled, next)
		got := acquire(t, w.eng, next, prod)
		require.Equal(t, lease.Acquired, got.Code, got.Detail)
		require.Greater(t, got.Epoch, last)
		last, a = got.Epoch, next
	}
}

// register2 gives the dead node a successor on another machine.
func register2(t *testing.T, w *world, dead *node) *node {
	t.Helper()
	return register(t, w.eng, dead.name+"x")
}
