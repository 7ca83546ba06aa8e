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
	refused settledHeap         // the same for refusals, so that many of them push no outcome out
	waiters map[string][]chan struct{}
	news    map[string]struct{} // effects whose state the authority has not acknowledged
	told    map[string]struct{} // effects that were sent to it while they were not settled
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
		waiters: map[string][]chan struct{}{}, news: map[string]struct{}{}, told: map[string]struct{}{},
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
	if e.Key != "" && !e.Refused {
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
			heap.Push(x.candidates(e.Refused), settledAt{e.ID, e.SettledAt})
		}
		delete(u.ids, e.ID)
	} else {
		u.ids[e.ID] = struct{}{}
	}
	x.note(e)
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

func (x *index) candidates(refused bool) *settledHeap {
	if refused {
		return &x.refused
	}
	return &x.settled
}

// surplus takes the settled effects that are too many or too old out of the
// index and returns their ids.
func (x *index) surplus(keep, keepRefused int, before time.Time) []string {
	return append(x.shrink(&x.settled, keep, before), x.shrink(&x.refused, keepRefused, before)...)
}

func (x *index) shrink(h *settledHeap, keep int, before time.Time) []string {
	var out []string
	for len(*h) > 0 && (len(*h) > keep || (*h)[0].at.Before(before)) {
		id := heap.Pop(h).(settledAt).id
		e := x.byID[id]
		if x.byKey[keyOf(e)] == id {
			delete(x.byKey, keyOf(e))
		}
		delete(x.byID, id)
		delete(x.news, id)
		delete(x.told, id)
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
