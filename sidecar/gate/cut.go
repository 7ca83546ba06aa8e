package gate

import "github.com/forgeyard/concurrency/sidecar/ownership"

// cutset is what must be ended when a hold is cut.
type cutset struct {
	done bool
	next int
	fs   map[int]func()
}

func (g *Gate) cutsetLocked(key ownership.Key) *cutset {
	c := g.cuts[key]
	if c == nil {
		c = &cutset{fs: map[int]func(){}}
		g.cuts[key] = c
	}
	return c
}

// OnCut registers f, which must end a connection, tunnel or stream and must
// not block. When the hold was cut already f runs at once. The returned
// function takes the registration back.
func (g *Gate) OnCut(key ownership.Key, f func()) (cancel func()) {
	g.mu.Lock()
	c := g.cutsetLocked(key)
	if c.done {
		g.mu.Unlock()
		f()
		return func() {}
	}
	id := c.next
	c.next++
	c.fs[id] = f
	g.mu.Unlock()
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(c.fs, id)
	}
}

// Cut ends everything of the hold, for good. It returns when every registered
// function has run.
func (g *Gate) Cut(key ownership.Key) {
	g.mu.Lock()
	c := g.cutsetLocked(key)
	c.done = true
	fs := c.fs
	c.fs = map[int]func(){}
	g.mu.Unlock()
	for _, f := range fs {
		f()
	}
}

// Forget drops what the gate remembers of a hold that no View names any more.
func (g *Gate) Forget(key ownership.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.cuts, key)
}
