package lease_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
)

// walker takes random steps over the rules of one reconciling scope, and keeps
// its own account of what is unsettled: by what it asked for and was answered,
// not by what the records say.
type walker struct {
	*bench
	t       *rapid.T
	seq     int
	epochs  map[string]epoch.Epoch
	claimed map[string]bool // something may have run under it
	clean   map[string]bool // its holder's receipt said that nothing is unknown, or a person accepted
	dirty   map[string]bool // ended uncleanly, not settled since
	missing bool            // history was cut since somebody looked
	granted bool            // the last step granted the scope for work
	highest epoch.Epoch
}

func newWalker(t *testing.T, r *rapid.T) *walker {
	w := &walker{bench: setup(t), t: r, epochs: map[string]epoch.Epoch{}, claimed: map[string]bool{}, clean: map[string]bool{}, dirty: map[string]bool{}}
	w.joins("a", "b")
	return w
}

func (w *walker) node() string { return rapid.SampledFrom([]string{"a", "b"}).Draw(w.t, "node") }

// any is the id of a lease that was ever granted.
func (w *walker) any() string {
	if w.seq == 0 {
		return "none"
	}
	return fmt.Sprintf("L%d", rapid.IntRange(1, w.seq).Draw(w.t, "lease"))
}

func (w *walker) acquireFor(p lease.Purpose) {
	n := w.node()
	w.seq++
	id := fmt.Sprintf("L%d", w.seq)
	a := w.takes(lease.Acquire(w.facts, w.pol, w.c, lease.AcquireRequest{
		Session: n, Nonce: n, LeaseID: id, Holder: lease.Holder{Kind: lease.HolderController, ID: n}, Purpose: p,
	}))
	if a.Code != lease.Acquired {
		return
	}
	require.Greater(w.t, a.Epoch, w.highest, "I2")
	w.highest, w.epochs[id], w.granted = a.Epoch, a.Epoch, p == lease.Work
}

func (w *walker) claimAny() {
	id := w.any()
	if w.bench.claim(w.node(), id, w.epochs[id]).Code == lease.Claimed {
		w.claimed[id] = true
	}
}

func (w *walker) releaseAny() {
	id, unknown := w.any(), rapid.IntRange(0, 1).Draw(w.t, "unknown")
	n, why := w.node(), rapid.SampledFrom([]lease.EndReason{lease.Released, lease.CallerGone}).Draw(w.t, "why")
	if w.release(n, id, w.epochs[id], why, unknown).Code == lease.Done && unknown == 0 {
		w.clean[id] = true
	}
}

func (w *walker) accountAny() {
	id, unknown := w.any(), rapid.IntRange(0, 1).Draw(w.t, "unknown")
	if w.account(w.node(), id, w.epochs[id], unknown).Code == lease.Done && unknown == 0 {
		delete(w.dirty, id)
		w.clean[id] = true // it may have ended in this very step
	}
}

func (w *walker) resolveAll() {
	var all []lease.Resolution
	if rapid.Bool().Draw(w.t, "every effect") {
		for _, e := range w.c.Evidence {
			all = append(all, lease.Resolution{Effect: e.Effect.ID, Outcome: effect.Failed, Seen: "nothing"})
		}
	}
	left := len(w.c.Evidence) - len(all)
	a := w.resolve(lease.ResolveRequest{Actor: "alice", Resolutions: all, Reopen: true, Seen: "looked"})
	if a.Code == lease.Done {
		require.Zero(w.t, left, "reopened with effects that nobody resolved")
		w.looked()
	}
}

// looked: whatever has ended by now is settled.
func (w *walker) looked() {
	w.dirty, w.missing = map[string]bool{}, false
	for id := range w.ended {
		w.clean[id] = true
	}
}

func (w *walker) forceAny() {
	accept := rapid.Bool().Draw(w.t, "accept")
	held, closed := len(w.c.Leases) > 0, w.c.Scope.State != lease.Open
	var target string
	if held {
		target = w.c.Leases[0].ID
	}
	a := w.force(w.present(), accept)
	w.highest = max(w.highest, a.Epoch)
	switch {
	case !accept || (a.Code != lease.Done && a.Code != lease.IsDraining):
	case closed && w.c.Scope.State == lease.Open: // nobody held it any more
		w.looked()
	case held:
		w.clean[target] = true
	}
}

// present is the epoch that a person sees.
func (w *walker) present() epoch.Epoch {
	if len(w.c.Leases) > 0 {
		return w.c.Leases[0].Epoch
	}
	return w.c.Scope.Epoch
}

// report is a heartbeat that tells of an open effect.
func (w *walker) report() {
	for _, l := range w.c.Unsettled {
		id := "E-" + l.ID
		w.c.Evidence = append(w.c.Evidence, lease.Evidence{Effect: effect.Effect{ID: id, Lease: l.ID, State: effect.Unknown}, Node: l.Node})
		return
	}
}

func (w *walker) cut() {
	w.facts.Generation++
	w.facts.Pause = lease.Pause{Whole: true}
	if w.c.Scope.Epoch > 0 {
		w.missing = true
	}
	w.takes(w.facts.Forget(w.pol, w.c, "cut"), lease.Answer{})
}

func (w *walker) wait() {
	d := time.Duration(rapid.IntRange(0, 70).Draw(w.t, "seconds")) * time.Second
	w.pauses(d)
}

// step does one thing, then compares the records with the account.
func (w *walker) step(do func()) {
	dirty, missing, before := len(w.dirty), w.missing, w.c.Scope.State
	w.granted = false
	ended := len(w.ended)
	do()
	if len(w.ended) > ended {
		for id, l := range w.ended {
			if w.claimed[id] && !w.clean[id] && l.Holder.Kind != lease.HolderPerson {
				w.dirty[id] = true
			}
			delete(w.claimed, id)
		}
	}
	if w.granted {
		require.Zero(w.t, dirty, "I6: granted for work while leases were unsettled")
		require.False(w.t, missing, "I6: granted for work over a cut history")
		require.Equal(w.t, lease.Open, before)
	}
	if len(w.dirty) > 0 || w.missing {
		require.NotEqual(w.t, lease.Open, w.c.Scope.State, "I6: open with %v unsettled, history missing: %t", w.dirty, w.missing)
	}
}

func TestI6_RandomStepsNeverGrantOverWhatNobodySettled(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		w := newWalker(t, r)
		does := func(f func()) func(*rapid.T) { return func(r *rapid.T) { w.t = r; w.step(f) } }
		r.Repeat(map[string]func(*rapid.T){
			"work":      does(func() { w.acquireFor(lease.Work) }),
			"claim":     does(w.claimAny),
			"release":   does(w.releaseAny),
			"account":   does(w.accountAny),
			"reconcile": does(func() { w.acquireFor(lease.Reconcile) }),
			"person":    does(func() { w.highest = max(w.highest, w.claims("alice").Epoch) }),
			"resolve":   does(w.resolveAll),
			"force":     does(w.forceAny),
			"report":    does(w.report),
			"beat":      does(func() { w.beats(w.node(), 0) }),
			"settle":    does(w.settle),
			"wait":      does(w.wait),
			"cut":       does(w.cut),
		})
	})
}
