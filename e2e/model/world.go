package model

import (
	"fmt"
	"slices"
	"time"

	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// Off names guards that are switched off, to see that the search then fails.
type Off struct {
	Sets      bool // a set takes nothing away from the holds (FC-90)
	Applied   bool // a heartbeat answer newer than the applied set extends it (FC-91)
	Deltas    bool // any answer one newer than the set counts as its next delta (FC-90)
	SentAt    bool // durations count from the receipt of the answer (FC-22)
	Drain     bool // a force release ends a live lease at once (FC-90)
	Pause     bool // the steps of the clock begin no time pause (FC-24, FC-101)
	Written   bool // an expired lease is not counted, but not ended either (FC-100)
	LockFile  bool // a copy of the data directory passes for its original (FC-99)
	LockDelay bool // the authority grants as soon as its own deadline has passed
	Unclean   bool // an unclean end leaves a reconciling scope open (I6)
}

// Config bounds and shapes a world.
type Config struct {
	Off    Off
	Budget lease.Budget
	Policy lease.Policy
	MaxTTL time.Duration
	Rates  []float64 // of each node's boottime; the authority's clock runs at 1
	Clone  bool      // node 1 is a copy of node 0 on another machine

	repeats bool // some message may come twice
	judge   *judge
	dump    *World // what a cut of history goes back to
}

// World is one state: true time, the authority, the nodes, and what is on its
// way. It is a value: every step returns another World and changes nothing of
// the former.
type World struct {
	cfg   *Config
	Now   time.Duration // true time
	Auth  Authority
	Nodes []Node
	Net   []Message
}

// New is the world in which nothing has happened yet.
func New(cfg *Config) World {
	cfg.judge = newJudge()
	w := World{cfg: cfg, Auth: newAuthority()}
	for i := range cfg.Rates {
		w.Nodes = append(w.Nodes, newNode(i, cfg.Clone))
	}
	return w
}

// boot reads a node's CLOCK_BOOTTIME.
func (w World) boot(i int) boottime.Instant {
	return boottime.Instant(float64(w.Now)*w.cfg.Rates[i]) + 1 // zero means never
}

// Advance lets true time pass.
func (w World) Advance(d time.Duration) World {
	w.Now += d
	return w
}

// withNode returns w with node n in its place.
func (w World) withNode(n Node) World {
	w.Nodes = slices.Clone(w.Nodes)
	w.Nodes[n.Index] = n
	return w
}

// send puts a message on its way.
func (w World) send(m Message) World {
	w.Net = append(slices.Clone(w.Net), m)
	return w
}

// Drop loses message i.
func (w World) Drop(i int) World {
	w.Net = slices.Delete(slices.Clone(w.Net), i, i+1)
	return w
}

// Deliver hands over message i; with keep it stays on its way and will come
// again. The error is a broken property.
func (w World) Deliver(i int, keep bool) (World, error) {
	m := w.Net[i]
	if !keep {
		w = w.Drop(i)
	}
	if m.Answer {
		return w.withNode(w.Nodes[m.Node].receive(w, m)), nil
	}
	return w.decide(m)
}

// Dump keeps w as what a cut of history goes back to.
func (w World) Dump() { w.cfg.dump = &w }

// timing is the budget as the nodes' machines have it. Without a time of its
// own, Uncertain begins with the hard deadline.
func (w World) timing() ownership.Timing {
	t := ownership.TimingOf(w.cfg.Budget)
	if t.UncertainAfter == 0 {
		t.UncertainAfter = t.TTL - t.Margin
	}
	return t
}

// Users lists the nodes whose gates let effects pass at this instant.
func (w World) Users() []int {
	var out []int
	for i, n := range w.Nodes {
		if slices.ContainsFunc(n.Holds, func(h Hold) bool { return w.cfg.judge.inUse(h, w.boot(i)) }) {
			out = append(out, i)
		}
	}
	return out
}

// Check proves that at most one node acts, and only under a lease that the
// authority has not ended. After a cut of history it may have forgotten it.
func (w World) Check() error {
	for i, n := range w.Nodes {
		for _, h := range n.Holds {
			if !w.Auth.has(h.Asked) && !w.Auth.Cut && w.cfg.judge.inUse(h, w.boot(i)) {
				return fmt.Errorf("node %d uses %s at %s, which has ended", i, h.Asked, w.Now)
			}
		}
	}
	if users := w.Users(); len(users) > 1 {
		return fmt.Errorf("nodes %v use the scope at once at %s", users, w.Now)
	}
	return nil
}
