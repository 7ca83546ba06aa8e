package history

import (
	"fmt"
	"sort"
	"sync"
	"time"
)

// Grant is one acknowledged grant, as its client saw it. Times count from the
// beginning of the run.
type Grant struct {
	Scope, Node, Lease string
	Epoch              uint64
	Called, Returned   time.Duration
}

// Write is one request as the provider saw it.
type Write struct {
	Scope, Lease string
	Token        uint64
	Guarded      bool // the provider compares tokens
	Accepted     bool
	Cut          bool          // it broke off: the provider never decided
	Arrived      time.Duration // of the first byte
	LastByte     time.Duration
	Finished     time.Duration // the provider has decided
}

// History is safe for concurrent use.
type History struct {
	began time.Time

	mu     sync.Mutex
	grants []Grant
	writes []Write
}

// New begins a history now.
func New(now time.Time) *History { return &History{began: now} }

// At is the time of the run.
func (h *History) At(now time.Time) time.Duration { return now.Sub(h.began) }

// Granted adds a grant.
func (h *History) Granted(g Grant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.grants = append(h.grants, g)
}

// Wrote adds a write.
func (h *History) Wrote(w Write) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writes = append(h.writes, w)
}

// Grants lists them by the time at which they returned.
func (h *History) Grants() []Grant {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := append([]Grant{}, h.grants...)
	sort.Slice(out, func(i, j int) bool { return out[i].Returned < out[j].Returned })
	return out
}

// Writes lists them by the time at which they arrived.
func (h *History) Writes() []Write {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := append([]Write{}, h.writes...)
	sort.Slice(out, func(i, j int) bool { return out[i].Arrived < out[j].Arrived })
	return out
}

// Violation is one broken promise.
type Violation struct {
	Rule   string // the invariant's id
	Scope  string
	Detail string
}

// String tells it to people.
func (v Violation) String() string { return fmt.Sprintf("%s on %s: %s", v.Rule, v.Scope, v.Detail) }
