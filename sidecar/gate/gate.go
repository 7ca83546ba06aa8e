package gate

import (
	"sync"
	"sync/atomic"

	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// Gate holds the present View. Use New.
type Gate struct {
	clock clock.Clock
	view  atomic.Pointer[ownership.View]

	waiting atomic.Int64 // waiters in idle; lets Done skip the lock
	mu      sync.Mutex
	idle    map[ownership.Key][]chan struct{}
	cuts    map[ownership.Key]*cutset
}

// New returns a gate with an empty View: nothing is admitted.
func New(c clock.Clock) *Gate {
	g := &Gate{clock: c, idle: map[ownership.Key][]chan struct{}{}, cuts: map[ownership.Key]*cutset{}}
	g.view.Store(&ownership.View{})
	return g
}

// Publish replaces the View. The caller must not change v afterwards.
func (g *Gate) Publish(v *ownership.View) { g.view.Store(v) }

// View returns the present one.
func (g *Gate) View() *ownership.View { return g.view.Load() }

// Permit is one admitted call; it counts as in flight until Done. The zero
// Permit is invalid.
type Permit struct {
	gate  *Gate
	key   ownership.Key
	count *atomic.Int64
}

// Admit lets a mutation pass or says why not. A nil Refusal means that the
// caller must call Done on the Permit, once.
func (g *Gate) Admit(key ownership.Key) (Permit, *Refusal) {
	count := g.view.Load().Holds[key].InFlight
	if count == nil {
		return Permit{}, noHold()
	}
	count.Add(1) // before the look that decides
	p := Permit{gate: g, key: key, count: count}
	if r := p.Check(); r != nil {
		p.Done()
		return Permit{}, r
	}
	return p, nil
}

// AdmitRead lets an operation pass that changes nothing: it needs a hold that
// is known, in whatever state.
func (g *Gate) AdmitRead(key ownership.Key) (ownership.Term, *Refusal) {
	e, ok := g.view.Load().Holds[key]
	if !ok {
		return ownership.Term{}, noHold()
	}
	return e.Term, nil
}

// Check looks again, with the View and the boottime of this moment.
func (p Permit) Check() *Refusal {
	e, ok := p.gate.view.Load().Holds[p.key]
	if !ok {
		return noHold()
	}
	return judge(&e.Term, p.gate.clock.Boot())
}

// CheckRunning looks whether a call that has started may go on: Uncertain and
// Releasing let it, Lost and the hard deadline do not (DESIGN 4.7).
func (p Permit) CheckRunning() *Refusal {
	e, ok := p.gate.view.Load().Holds[p.key]
	if !ok {
		return noHold()
	}
	t := &e.Term
	if t.State == ownership.Lost || (t.Deadline != 0 && !p.gate.clock.Boot().Before(t.Deadline)) {
		return lost(t)
	}
	return nil
}

// Key is the hold's.
func (p Permit) Key() ownership.Key { return p.key }

// Term is the hold's term at this moment; zero when the hold is gone.
func (p Permit) Term() ownership.Term { return p.gate.view.Load().Holds[p.key].Term }

// Done ends the call.
func (p Permit) Done() {
	if p.count.Add(-1) == 0 && p.gate.waiting.Load() > 0 {
		p.gate.wake(p.key)
	}
}

// judge is the rule of admission (DESIGN 6.5). Deadlines count even when the
// View still says Owned.
func judge(t *ownership.Term, now boottime.Instant) *Refusal {
	switch t.State {
	case ownership.Owned, ownership.Uncertain:
		if !now.Before(t.Deadline) {
			return lost(t)
		}
		if t.State == ownership.Uncertain || !now.Before(t.UncertainAt) {
			return uncertain(t)
		}
		if t.Settling {
			return settling(t)
		}
		return nil
	case ownership.Lost:
		return lost(t)
	case ownership.Unowned, ownership.Acquiring, ownership.Waiting, ownership.Reconciling, ownership.Releasing:
		return notOwned(t)
	}
	return notOwned(t)
}

// InFlight is the number of permits of a hold.
func (g *Gate) InFlight(key ownership.Key) int64 {
	e, ok := g.view.Load().Holds[key]
	if !ok {
		return 0
	}
	return e.InFlight.Load()
}

// Idle returns a channel that is closed once nothing is in flight under the
// hold. Call it after Releasing, Lost or Settling was published: what is counted
// in after that is refused.
func (g *Gate) Idle(key ownership.Key) <-chan struct{} {
	done := make(chan struct{})
	g.mu.Lock()
	g.idle[key] = append(g.idle[key], done)
	g.waiting.Add(1)
	g.mu.Unlock()
	if g.InFlight(key) == 0 { // it may have fallen before Done could see the waiter
		g.wake(key)
	}
	return done
}

func (g *Gate) wake(key ownership.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, done := range g.idle[key] {
		close(done)
		g.waiting.Add(-1)
	}
	delete(g.idle, key)
}
