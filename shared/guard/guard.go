package guard

import (
	"context"
	"fmt"
	"sync"
)

// Marks remembers the highest mark of each key. Load returns the zero Mark for
// a key that was never seen; Store returns once the mark is as durable as the
// implementation makes it. Guard calls them for one key from one goroutine at a
// time.
type Marks interface {
	Load(Key) (Mark, error)
	Store(Key, Mark) error
}

// Guard admits writes in the order of their tokens. Use New.
type Guard struct {
	marks Marks

	mu   sync.Mutex
	busy map[Key]*turn
}

// turn is the right to compare and write under one key.
type turn struct {
	free  chan struct{} // holds one token while nobody writes
	users int
}

// New makes a guard over marks.
func New(m Marks) *Guard { return &Guard{marks: m, busy: map[Key]*turn{}} }

// Do compares the offered mark, stores it when it is higher, and runs write
// while nobody else writes under the key. It fails with *StaleError,
// *ConflictError, an error of the marks, ctx's error while it waits, or
// write's own; in all cases but the last write was not called.
func (g *Guard) Do(ctx context.Context, k Key, offered Mark, write func() error) error {
	t := g.join(k)
	defer g.leave(k, t)
	select {
	case <-t.free:
	case <-ctx.Done():
		return fmt.Errorf("wait for %s: %w", k, ctx.Err())
	}
	defer func() { t.free <- struct{}{} }()
	if err := g.raise(k, offered); err != nil {
		return err
	}
	return write()
}

func (g *Guard) raise(k Key, offered Mark) error {
	seen, err := g.marks.Load(k)
	if err != nil {
		return fmt.Errorf("load mark of %s: %w", k, err)
	}
	higher, err := Judge(k, seen, offered)
	if err != nil || !higher {
		return err
	}
	if err := g.marks.Store(k, offered); err != nil {
		return fmt.Errorf("store mark of %s: %w", k, err)
	}
	return nil
}

func (g *Guard) join(k Key) *turn {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.busy[k]
	if t == nil {
		t = &turn{free: make(chan struct{}, 1)}
		t.free <- struct{}{}
		g.busy[k] = t
	}
	t.users++
	return t
}

func (g *Guard) leave(k Key, t *turn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(g.busy, k)
	}
}

// Memory keeps marks in the process. It is safe for concurrent use.
type Memory struct {
	mu    sync.Mutex
	marks map[Key]Mark
}

var _ Marks = (*Memory)(nil)

// NewMemory makes an empty one.
func NewMemory() *Memory { return &Memory{marks: map[Key]Mark{}} }

// Load implements Marks.
func (m *Memory) Load(k Key) (Mark, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.marks[k], nil
}

// Store implements Marks.
func (m *Memory) Store(k Key, mark Mark) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.marks[k] = mark
	return nil
}
