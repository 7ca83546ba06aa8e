package journal

import (
	"container/heap"
	"time"

	"github.com/forgeyard/concurrency/shared/effect"
)

// index is what readers ask for without touching the file. The journal's mutex
// guards it.
type index struct {
	byID    map[string]effect.Effect
	byKey   map[callKey]string  // the latest effect with a caller's key
	unended map[string]*unended // by lease
	settled settledHeap         // candidates to be dropped, oldest first
	waiters map[string][]chan struct{}
	count   int // settled effects
}

// unended is what a lease has that is not settled.
type unended struct {
	ids           map[string]struct{}
	open, unknown int
}

func (u *unended) add(s effect.State, n int) {
	switch {
	case s == effect.Unknown:
		u.unknown += n
	case !isSettled(s):
		u.open += n
	}
}

// callKey is a caller's idempotency key, which counts within one scope and
// provider.
type callKey struct{ scope, provider, key string }

func newIndex() index {
	return index{
		byID: map[string]effect.Effect{}, byKey: map[callKey]string{}, unended: map[string]*unended{},
		waiters: map[string][]chan struct{}{},
	}
}

func keyOf(e effect.Effect) callKey {
	return callKey{scope: e.Scope.String(), provider: e.Provider, key: e.Key}
}

func isSettled(s effect.State) bool {
	return s == effect.Succeeded || s == effect.Failed || s == effect.Reconciled
}

func (x *index) put(e effect.Effect) {
	old, had := x.byID[e.ID]
	x.byID[e.ID] = e
	refusal := e.State == effect.Failed && !had
	if e.Key != "" && !refusal { // a refused attempt is no execution of its key
		x.byKey[keyOf(e)] = e.ID
	}
	u := x.unended[e.Lease]
	if u == nil {
		u = &unended{ids: map[string]struct{}{}}
		x.unended[e.Lease] = u
	}
	if had {
		u.add(old.State, -1)
	}
	u.add(e.State, 1)
	if isSettled(e.State) {
		if !had || !isSettled(old.State) {
			x.count++
			heap.Push(&x.settled, settledAt{e.ID, e.SettledAt})
		}
		delete(u.ids, e.ID)
	} else {
		u.ids[e.ID] = struct{}{}
	}
	x.wake(e.Lease, u)
}

// wake tells who waits for a lease that has nothing open any more.
func (x *index) wake(lease string, u *unended) {
	if u.open == 0 {
		for _, w := range x.waiters[lease] {
			close(w)
		}
		delete(x.waiters, lease)
	}
	if len(u.ids) == 0 {
		delete(x.unended, lease)
	}
}

func (x *index) counts(lease string) (open, unknown int) {
	if u := x.unended[lease]; u != nil {
		return u.open, u.unknown
	}
	return 0, 0
}

func (x *index) open() []effect.Effect {
	var out []effect.Effect
	for _, u := range x.unended {
		for id := range u.ids {
			if e := x.byID[id]; e.Open() {
				out = append(out, e)
			}
		}
	}
	return out
}

// surplus takes the settled effects that are too many or too old out of the
// index and returns their ids.
func (x *index) surplus(keep int, before time.Time) []string {
	var out []string
	for len(x.settled) > 0 && (x.count > keep || x.settled[0].at.Before(before)) {
		id := heap.Pop(&x.settled).(settledAt).id
		e := x.byID[id]
		if x.byKey[keyOf(e)] == id {
			delete(x.byKey, keyOf(e))
		}
		delete(x.byID, id)
		x.count--
		out = append(out, id)
	}
	return out
}

type settledAt struct {
	id string
	at time.Time
}

// settledHeap implements heap.Interface.
type settledHeap []settledAt

func (h settledHeap) Len() int           { return len(h) }
func (h settledHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h settledHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *settledHeap) Push(v any)        { *h = append(*h, v.(settledAt)) }
func (h *settledHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
