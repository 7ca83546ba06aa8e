package coordinator

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/authority/access"
	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// Reconcilers ask for work on a timer of their own; whoever has not asked for
// longer than this is not woken any more.
const interestLasts = 10 * time.Minute

// wakers remembers which connected nodes have reconcilers, and what they were
// woken for. Each replica has its own: nothing depends on a wake.
type wakers struct {
	mu       sync.Mutex
	interest map[string]interest // by node
	told     map[scope.ID]bool
}

type interest struct {
	caller Caller
	kinds  []string
	until  boottime.Instant
}

// interested notes that the caller has reconcilers for these kinds.
func (c *Coordinator) interested(caller Caller, kinds []string) {
	w := &c.wakers
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.interest == nil {
		w.interest = map[string]interest{}
	}
	w.interest[caller.Node] = interest{caller: caller, kinds: slices.Clone(kinds), until: c.cfg.Clock.Boot().Add(interestLasts)}
}

// watchClosed counts the scopes that are closed, and wakes reconcilers for
// those that have become blocked.
func (c *Coordinator) watchClosed(ctx context.Context) error {
	closed, err := c.cfg.Store.Closed(ctx, maxLeases)
	if err != nil {
		return fmt.Errorf("list closed scopes: %w", err)
	}
	count := map[lease.ScopeState]int{}
	for _, r := range closed {
		count[r.State]++
	}
	c.metrics.blocked.Set(float64(count[lease.Blocked]))
	c.metrics.quarantined.Set(float64(count[lease.Quarantined]))
	for node, scopes := range c.wakers.toWake(closed, c.cfg.Clock.Boot()) {
		c.cfg.Log.Info("waking a reconciler", zap.String("node", node), zap.Strings("scopes", scopes))
		c.cfg.Roster.Wake(node, scopes)
	}
	return nil
}

// toWake lists, by node, the newly blocked scopes that its reconcilers want.
func (w *wakers) toWake(closed []lease.Record, now boottime.Instant) map[string][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	still := make(map[scope.ID]bool, len(closed))
	out := map[string][]string{}
	for _, r := range closed {
		if r.State != lease.Blocked {
			continue
		}
		id := r.Scope.ID()
		still[id] = true
		if w.told[id] {
			continue
		}
		for node, i := range w.interest {
			if now.Before(i.until) && slices.Contains(i.kinds, string(r.Scope.Kind())) && access.NodeMay(node, i.caller.Tenants, r.Scope) == nil {
				out[node] = append(out[node], r.Scope.String())
			}
		}
	}
	w.told = still
	return out
}
