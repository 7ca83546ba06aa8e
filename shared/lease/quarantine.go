package lease

import (
	"fmt"

	"github.com/forgeyard/concurrency/shared/epoch"
)

// Contradiction says what cannot be true of the records of a scope, or
// nothing: an epoch that fell below one of its own leases, or two exclusive
// leases. No rule of this package makes such records; a store that was put
// together from two histories has them.
func (c Case) Contradiction() string {
	if c.Scope.State == Quarantined {
		return "" // known
	}
	exclusive, seen := 0, map[epoch.Epoch]string{}
	for _, l := range c.Leases {
		if l.Epoch > c.Scope.Epoch {
			return fmt.Sprintf("lease %s has epoch %d, its scope only %d", l.ID, l.Epoch, c.Scope.Epoch)
		}
		if other, twice := seen[l.Epoch]; twice {
			return fmt.Sprintf("leases %s and %s have the same epoch %d", other, l.ID, l.Epoch)
		}
		seen[l.Epoch] = l.ID
		if l.Exclusive {
			exclusive++
		}
	}
	if exclusive > 1 {
		return fmt.Sprintf("%d exclusive leases at once", exclusive)
	}
	return ""
}

// Quarantine closes a scope whose records contradict each other: its leases
// end early and only a person with the right to administer may look at it. Its
// epoch is put above every one that was seen.
func (f Facts) Quarantine(p Policy, c Case, why string) Change {
	rec := c.Scope
	for _, l := range c.Leases {
		rec.Epoch = max(rec.Epoch, l.Epoch)
	}
	ch := Change{Scope: &rec}
	for _, l := range c.Leases {
		ch = ch.merge(f.evict(p, c.Apply(ch), l, DoublyOwned, why))
	}
	return ch.merge(f.closeForgotten(c.Apply(ch), Quarantined, "scope-quarantined", why))
}
