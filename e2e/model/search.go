package model

import (
	"fmt"
	"hash/maphash"
	"strings"
	"time"
)

// Bounds are what a search may do on one path. One tick is a second of true
// time. Messages arrive in every order, late, or never; Duplicates of them
// twice.
type Bounds struct {
	Ticks, Asks, Net, Duplicates, Forces, Steps, Restarts, Raises, Sleeps, Cuts int
	Step                                                                        time.Duration // of the store's clock
	Kinds                                                                       [][]Kind      // what each node asks
	States                                                                      int           // the search gives up beyond; 0: none
}

// String lists the bounds as they are printed beside the count of states.
func (b Bounds) String() string {
	return fmt.Sprintf("ticks %d, requests %d of %v, in flight %d, duplicates %d, force releases %d, clock steps %d of %s, restarts and reboots %d, generation raises %d, clock events %d, restored dumps %d",
		b.Ticks, b.Asks, b.Kinds, b.Net, b.Duplicates, b.Forces, b.Steps, b.Step, b.Restarts, b.Raises, b.Sleeps, b.Cuts)
}

// Result is what a search found.
type Result struct {
	States    int
	Depth     int
	Truncated bool
	Broken    error    // nil: no property is broken within the bounds
	Trace     []string // the shortest way to Broken
}

// state is a world with what is left of the bounds and how it came about.
type state struct {
	world  World
	left   Bounds
	parent *state
	did    string
}

func (s *state) trace() []string {
	if s.parent == nil {
		return nil
	}
	return append(s.parent.trace(), s.did)
}

// Search walks everything that can happen to w within b, breadth first, until
// a property breaks.
func Search(w World, b Bounds) Result {
	var r Result
	w.cfg.repeats = b.Duplicates > 0
	seed := maphash.MakeSeed()
	first := &state{world: w, left: b}
	seen := map[uint64]struct{}{maphash.Bytes(seed, first.key()): {}}
	for level := []*state{first}; len(level) > 0; r.Depth++ {
		var next []*state
		for _, s := range level {
			for _, n := range s.next() {
				if n.err == nil {
					n.err = n.to.world.Check()
				}
				if n.err != nil {
					r.States, r.Broken, r.Trace = len(seen), n.err, n.to.trace()
					return r
				}
				k := maphash.Bytes(seed, n.to.key())
				if _, known := seen[k]; known {
					continue
				}
				seen[k] = struct{}{}
				next = append(next, n.to)
			}
		}
		if b.States > 0 && len(seen) > b.States {
			r.Truncated = true
			break
		}
		level = next
	}
	r.States = len(seen)
	return r
}

// branch is one thing that may happen next.
type branch struct {
	to  *state
	err error
}

func (s *state) next() []branch {
	var out []branch
	add := func(left Bounds, did string, w World, err error) {
		out = append(out, branch{to: &state{world: w, left: left, parent: s, did: did}, err: err})
	}
	s.timePasses(add)
	s.somebodyActs(add)
	s.somethingArrives(add)
	return out
}

type adder func(left Bounds, did string, w World, err error)

func (s *state) timePasses(add adder) {
	if left := s.left; left.Ticks > 0 {
		left.Ticks--
		add(left, "a second passes", s.world.Advance(time.Second), nil)
	}
	if left := s.left; left.Steps > 0 {
		left.Steps--
		add(left, fmt.Sprintf("store clock steps by %s", left.Step), s.world.StepClock(left.Step), nil)
		add(left, fmt.Sprintf("store clock steps by %s", -left.Step), s.world.StepClock(-left.Step), nil)
	}
}

func (s *state) somebodyActs(add adder) {
	if left := s.left; left.Forces > 0 {
		left.Forces--
		w, err := s.world.Force(false)
		add(left, "force release", w, err)
	}
	if left := s.left; left.Raises > 0 {
		left.Raises--
		add(left, "generation raised", s.world.Raise(), nil)
	}
	if left := s.left; left.Cuts > 0 && s.world.cfg.dump != nil {
		left.Cuts--
		w, err := s.world.Restore(*s.world.cfg.dump)
		add(left, "an older dump is restored", w, err)
	}
	for i := range s.world.Nodes {
		if left := s.left; left.Restarts > 0 {
			left.Restarts--
			add(left, fmt.Sprintf("node %d restarts", i), s.world.Restart(i), nil)
			add(left, fmt.Sprintf("node %d reboots", i), s.world.Reboot(i), nil)
		}
		if left := s.left; left.Sleeps > 0 {
			left.Sleeps--
			add(left, fmt.Sprintf("node %d notices that it slept", i), s.world.Sleep(i), nil)
		}
		s.nodeAsks(i, add)
	}
}

func (s *state) nodeAsks(i int, add adder) {
	left := s.left
	if left.Asks == 0 || len(s.world.Net) >= left.Net {
		return
	}
	left.Asks--
	for _, k := range left.Kinds[i] {
		holds := 1
		if k == Claim || k == Release {
			holds = len(s.world.Nodes[i].Holds)
		}
		for h := range holds {
			if w, ok := s.world.Ask(i, k, h); ok {
				add(left, fmt.Sprintf("node %d asks %s", i, k), w, nil)
			}
		}
	}
}

func (s *state) somethingArrives(add adder) {
	for i, m := range s.world.Net {
		what := fmt.Sprintf("%s of node %d arrives", m.Kind, m.Node)
		if m.Answer {
			what = fmt.Sprintf("answer %s to %s of node %d arrives", m.Code, m.Kind, m.Node)
		}
		w, err := s.world.Deliver(i, false)
		add(s.left, what, w, err)
		if left := s.left; left.Duplicates > 0 {
			left.Duplicates--
			w, err := s.world.Deliver(i, true)
			add(left, what+" and will again", w, err)
		}
		if len(s.world.Net) >= s.left.Net {
			add(s.left, what+" never", s.world.Drop(i), nil)
		}
	}
}

// Story renders a trace, one step a line.
func (r Result) Story() string {
	return strings.Join(r.Trace, "\n") + "\n=> " + fmt.Sprint(r.Broken)
}
