package model_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	. "github.com/forgeyard/concurrency/e2e/model"
	"github.com/forgeyard/concurrency/shared/lease"
)

// small is a budget in whole ticks: trust ends one before the authority's
// deadline, a grant follows one after it.
func small(off Off) *Config {
	return &Config{
		Off:    off,
		Budget: lease.Budget{TTL: 3 * time.Second, Margin: time.Second, LockDelay: time.Second},
		MaxTTL: 3 * time.Second,
		Policy: lease.Policy{
			Requirement: lease.Exclusive, MinTTL: time.Second, MaxTTL: 3 * time.Second,
			LockDelay: time.Second, ClaimTimeout: 2 * time.Second, OnUncleanEnd: lease.FreeAfter,
		},
		Rates: []float64{1, 1},
	}
}

// must asks and has the answer delivered at once.
func must(t *testing.T, w World, node int, k Kind) World {
	t.Helper()
	w, ok := w.Ask(node, k, 0)
	require.True(t, ok, "node %d asks %s", node, k)
	for range 2 {
		var err error
		w, err = w.Deliver(len(w.Net)-1, false)
		require.NoError(t, err)
	}
	return w
}

// owned is the start of most searches: node 0 owns the scope, node 1 is there.
func owned(t *testing.T, cfg *Config) World {
	t.Helper()
	w := New(cfg)
	w = must(t, w, 0, Register)
	w = must(t, w, 0, Fetch)
	w = must(t, w, 0, Acquire)
	w = must(t, w, 0, Claim)
	require.True(t, w.Nodes[0].Holds[0].Acked)
	if !cfg.Clone {
		w = must(t, w, 1, Register)
		w = must(t, w, 1, Fetch)
	}
	return w
}

// scenario is what one search covers.
type scenario struct {
	states int // fewer or more: the search does not see what it saw
	bounds Bounds
	shape  func(*Config)
	from   func(*testing.T, *Config) World
	off    Off // a guard without which it must fail
}

func scenarios() map[string]scenario {
	return map[string]scenario{
		"FC90 force release of a live holder": {
			states: 32_671,
			bounds: Bounds{Ticks: 1, Asks: 4, Net: 2, Forces: 1, Kinds: [][]Kind{{Beat, Fetch}, {Beat, Acquire}}},
			off:    Off{Drain: true},
		},
		"FC91 heartbeat answer ahead of the applied set": {
			states: 119_070,
			bounds: Bounds{Ticks: 4, Asks: 3, Net: 2, Forces: 1, Kinds: [][]Kind{{Beat}, {Beat, Acquire}}},
			shape:  func(c *Config) { c.Budget.Margin = 0 },
			off:    Off{Applied: true},
		},
		"FC92 delayed claim and acquire answers": {
			states: 64_914,
			bounds: Bounds{Ticks: 1, Asks: 4, Net: 2, Forces: 1, Kinds: [][]Kind{{Fetch, Claim, Beat}, {Acquire}}},
			from:   granted,
			off:    Off{Sets: true, Drain: true},
		},
		"FC10 repeated requests and answers": {
			states: 62_167,
			bounds: Bounds{Ticks: 1, Asks: 3, Net: 2, Duplicates: 1, Kinds: [][]Kind{{Release, Acquire, Claim}, {Acquire, Claim}}},
		},
		"FC90 answers that changed nothing": {
			states: 50_485,
			bounds: Bounds{Ticks: 1, Asks: 3, Net: 2, Forces: 1, Raises: 1, Kinds: [][]Kind{{Beat, Release}, {Acquire}}},
			from:   again,
			off:    Off{Deltas: true},
		},
		"FC22 slow answers": {
			states: 142_107,
			bounds: Bounds{Ticks: 5, Asks: 3, Net: 2, Kinds: [][]Kind{{Beat, Fetch}, {Beat, Acquire}}},
			shape:  func(c *Config) { c.Budget.Margin = 0 },
			off:    Off{SentAt: true},
		},
		"FC101 steps of the store's clock": {
			states: 145_990,
			bounds: Bounds{Ticks: 5, Asks: 3, Net: 1, Steps: 1, Step: 20 * time.Second, Kinds: [][]Kind{{Beat}, {Beat, Acquire}}},
			off:    Off{Pause: true},
		},
		"FC99 copied data directory": {
			states: 34_659,
			bounds: Bounds{Ticks: 5, Asks: 4, Net: 2, Kinds: [][]Kind{{Beat}, {Register, Fetch, Claim}}},
			shape:  func(c *Config) { c.Clone = true },
			from:   copied,
			off:    Off{LockFile: true},
		},
		"FC24 clock events": {
			states: 124_298,
			bounds: Bounds{Ticks: 3, Asks: 3, Net: 2, Sleeps: 1, Kinds: [][]Kind{{Beat}, {Beat, Acquire}}},
		},
		"FC98 restored dump": {
			states: 52_508,
			bounds: Bounds{Ticks: 4, Asks: 3, Net: 1, Cuts: 1, Kinds: [][]Kind{{Beat, Fetch}, {Beat, Fetch, Acquire}}},
			from:   dumped,
			off:    Off{Pause: true},
		},
		"I6 reconciling scope": {
			states: 51_135,
			bounds: Bounds{Ticks: 5, Asks: 3, Net: 1, Forces: 1, Kinds: [][]Kind{{Beat, Fetch}, {Beat, Acquire}}},
			shape:  func(c *Config) { c.Policy.OnUncleanEnd = lease.ReconcileAfter },
			off:    Off{Unclean: true},
		},
		"restart and resume, release, close": {
			states: 166_778,
			bounds: Bounds{Ticks: 1, Asks: 4, Net: 2, Restarts: 1, Kinds: [][]Kind{{Register, Fetch, Release, Close}, {Acquire}}},
		},
	}
}

// dumped is a world whose dump is from before the grant.
func dumped(t *testing.T, cfg *Config) World {
	t.Helper()
	w := must(t, must(t, New(cfg), 0, Register), 0, Fetch)
	w = must(t, must(t, w, 1, Register), 1, Fetch)
	w.Dump()
	return must(t, must(t, w, 0, Acquire), 0, Claim)
}

func granted(t *testing.T, cfg *Config) World {
	t.Helper()
	w := New(cfg)
	w = must(t, w, 0, Register)
	w = must(t, w, 0, Fetch)
	w = must(t, w, 0, Acquire)
	w = must(t, w, 1, Register)
	return must(t, w, 1, Fetch)
}

// again is node 0 with its second lease; it does not know yet that the
// authority has the release of the first one.
func again(t *testing.T, cfg *Config) World {
	t.Helper()
	w, ok := owned(t, cfg).Ask(0, Release, 0)
	require.True(t, ok)
	w, err := w.Deliver(0, false)
	require.NoError(t, err)
	w = must(t, must(t, w.Drop(0), 0, Acquire), 0, Fetch)
	w, ok = w.Ask(0, Claim, 1)
	require.True(t, ok)
	for range 2 {
		w, err = w.Deliver(len(w.Net)-1, false)
		require.NoError(t, err)
	}
	require.True(t, w.Nodes[0].Holds[1].Acked)
	return w
}

func copied(t *testing.T, cfg *Config) World {
	t.Helper()
	return owned(t, cfg).Copy(0, 1)
}

func TestI1_ExhaustiveSearchFindsNoTwoOwners(t *testing.T) {
	t.Parallel()
	total := 0
	for _, s := range scenarios() {
		total += s.states
	}
	t.Logf("%d states in %d scenarios, each count asserted", total, len(scenarios()))
	for name, s := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			r := search(t, s.bounds, s.shape, s.from, Off{})
			require.NoError(t, r.Broken, r.Story())
			require.False(t, r.Truncated, "the bounds are larger than the search may be")
			require.Equal(t, s.states, r.States, "the search covers something else now: see why, then state the new number")
			t.Logf("%s: %d states to depth %d in %s; %s", name, r.States, r.Depth, time.Since(start).Round(time.Millisecond), s.bounds)
		})
	}
}

func TestI1_SearchFailsWithoutItsGuard(t *testing.T) {
	t.Parallel()
	for name, s := range scenarios() {
		if s.off == (Off{}) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := search(t, s.bounds, s.shape, s.from, s.off)
			require.Error(t, r.Broken, "without the guard nothing broke: the search proves nothing (%d states)", r.States)
			t.Logf("%s: %d states; without the guard:\n%s", name, r.States, r.Story())
		})
	}
}

// search is single-threaded and pure: under the race detector it would take
// minutes to find nothing.
func search(t *testing.T, b Bounds, shape func(*Config), from func(*testing.T, *Config) World, off Off) Result {
	t.Helper()
	if raceDetector {
		t.Skip("exhaustive search runs without the race detector")
	}
	cfg := small(off)
	if shape != nil {
		shape(cfg)
	}
	if from == nil {
		from = owned
	}
	b.States = 600_000
	return Search(from(t, cfg), b)
}
