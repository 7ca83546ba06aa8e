package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Figures of a run. Sessions have the least ttl, so that a minute holds many
// lives of a lease.
const (
	authorities = 2
	sidecars    = 3
	ttl         = 2 * time.Second
	margin      = 600 * time.Millisecond
	lockDelay   = 600 * time.Millisecond
	maxTTL      = 3 * time.Second
	warmUp      = 3 * time.Second
)

// fault is one entry of the plan.
type fault struct {
	At, For time.Duration
	Kind    string
	Target  int           // of the kind's own targets
	Size    time.Duration // of a delay or a step of the clock
}

// String is a line of the printed plan.
func (f fault) String() string {
	return fmt.Sprintf("%7.2fs %-16s target %d for %s size %s", f.At.Seconds(), f.Kind, f.Target, f.For.Round(time.Millisecond), f.Size.Round(time.Millisecond))
}

// common faults may come at any time. Their weight is their number here.
var common = []string{
	"kill-authority", "kill-authority", "stop-authority", "kill-sidecar", "kill-sidecar", "stop-sidecar", "stop-sidecar",
	"drop-to", "drop-from", "drop-both", "drop-both", "delay", "lose-db-answer", "lose-db-answer", "lose-node-answer",
	"clock-step", "clock-step", "restart-postgres", "stop-postgres", "damage-file", "disk-full", "stutter", "slow-disk", "slow-disk",
}

// plan makes the schedule of a seed: the seed alone decides it.
func plan(seed uint64, length time.Duration) []fault {
	rng := rand.New(rand.NewPCG(seed, 1))
	between := func(low, high time.Duration) time.Duration { return low + time.Duration(rng.Int64N(int64(high-low))) }
	var out []fault
	for at := warmUp; at < length-4*time.Second; at += between(700*time.Millisecond, 3*time.Second) {
		f := fault{At: at, For: between(ttl/8, 2*ttl), Kind: common[rng.IntN(len(common))], Target: rng.IntN(6)}
		switch f.Kind {
		case "delay", "slow-disk":
			f.Size = between(20*time.Millisecond, 700*time.Millisecond)
		case "clock-step":
			f.Size = between(-time.Hour, time.Hour)
		}
		out = append(out, f)
	}
	// The history of the store is cut every 40 seconds, in turns.
	for i, at := 0, 20*time.Second; at < length-15*time.Second; i, at = i+1, at+40*time.Second {
		kind := []string{"promote", "restore"}[(uint64(i)+seed)%2]
		out = append(out, fault{At: at, For: between(500*time.Millisecond, 2500*time.Millisecond), Kind: kind})
	}
	slices.SortStableFunc(out, func(a, b fault) int { return int(a.At - b.At) })
	return out
}
