package lease

import (
	"fmt"
	"time"

	"github.com/forgeyard/concurrency/shared/epoch"
)

// Case is one scope with everything that a decision on it may look at: its
// record, its leases that have not ended, and the sessions of their holders
// and of the requester, all loaded under the scope's and the sessions' locks.
type Case struct {
	Scope    Record
	Leases   []Lease
	Sessions map[string]Session
}

// Change is what a rule wants written. Records that it does not name stay as
// they are. Audit entries carry what people must be able to read later.
type Change struct {
	Scope    *Record
	Leases   []Lease
	Sessions []Session
	Audit    []Audit
}

// Audit is one line of the audit log.
type Audit struct {
	At     time.Time   `json:"at"`
	Actor  string      `json:"actor"`
	Action string      `json:"action"`
	Scope  string      `json:"scope"`
	Lease  string      `json:"lease"`
	Node   string      `json:"node"`
	Epoch  epoch.Epoch `json:"epoch"`
	Reason string      `json:"reason"`
}

// Apply folds ch into c, as the store will hold it afterwards. It never
// changes c's slices or maps in place.
func (c Case) Apply(ch Change) Case {
	next := Case{Scope: c.Scope, Sessions: make(map[string]Session, len(c.Sessions)+len(ch.Sessions))}
	if ch.Scope != nil {
		next.Scope = *ch.Scope
	}
	for id, s := range c.Sessions {
		next.Sessions[id] = s
	}
	for _, s := range ch.Sessions {
		next.Sessions[s.ID] = s
	}
	changed := make(map[string]bool, len(ch.Leases))
	for _, l := range ch.Leases {
		changed[l.ID] = true
		if l.State != Ended {
			next.Leases = append(next.Leases, l)
		}
	}
	for _, l := range c.Leases {
		if !changed[l.ID] {
			next.Leases = append(next.Leases, l)
		}
	}
	return next
}

// Validate proves that ch may be written over c: I1, I2, and the step rules of
// a single lease. An error is a defect of a rule; the transaction must not
// commit.
func Validate(c Case, ch Change) error {
	after := c.Apply(ch)
	if after.Scope.Epoch < c.Scope.Epoch {
		return fmt.Errorf("lease: scope %s: epoch falls from %d to %d", c.Scope.Scope, c.Scope.Epoch, after.Scope.Epoch)
	}
	if err := validateHolders(after); err != nil {
		return err
	}
	before := make(map[string]Lease, len(c.Leases))
	for _, l := range c.Leases {
		before[l.ID] = l
	}
	for _, l := range ch.Leases {
		old, known := before[l.ID]
		if err := validateStep(c.Scope, after.Scope, old, known, l); err != nil {
			return err
		}
	}
	return nil
}

func validateHolders(after Case) error {
	exclusive := 0
	for _, l := range after.Leases {
		if l.Exclusive {
			exclusive++
		}
		if l.Epoch > after.Scope.Epoch {
			return fmt.Errorf("lease: %s: epoch %d above its scope's %d", l.ID, l.Epoch, after.Scope.Epoch)
		}
	}
	if exclusive > 1 {
		return fmt.Errorf("lease: scope %s: %d exclusive leases at once (I1)", after.Scope.Scope, exclusive)
	}
	return nil
}

func validateStep(was, is Record, old Lease, known bool, l Lease) error {
	if !known {
		if l.State == Granted && l.Epoch > was.Epoch && l.Epoch == is.Epoch {
			return nil
		}
		return fmt.Errorf("lease: %s: new lease in state %s with epoch %d over %d (I2)", l.ID, l.State, l.Epoch, was.Epoch)
	}
	if l.Epoch != old.Epoch || l.Session != old.Session || l.Scope != old.Scope {
		return fmt.Errorf("lease: %s: identity changed", l.ID)
	}
	if rank(l.State) < rank(old.State) {
		return fmt.Errorf("lease: %s: state goes back from %s to %s", l.ID, old.State, l.State)
	}
	return nil
}

func rank(s State) int {
	switch s {
	case Granted:
		return 0
	case Live:
		return 1
	case Draining:
		return 2
	case Ended:
		return 3
	}
	return -1
}
