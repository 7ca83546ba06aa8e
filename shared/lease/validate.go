package lease

import "fmt"

// Validate proves that ch may be written over c: I1, I2, the step rules of a
// single lease, and that a session whose set changed has a new set version
// (DESIGN 3, Session 4). An error is a defect of a rule; the transaction must not
// commit.
func Validate(c Case, ch Change) error {
	after := c.Apply(ch)
	if after.Scope.Epoch < c.Scope.Epoch {
		return fmt.Errorf("lease: scope %s: epoch falls from %d to %d", c.Scope.Scope, c.Scope.Epoch, after.Scope.Epoch)
	}
	if err := validateHolders(after); err != nil {
		return err
	}
	if after.Scope.State == Open && (len(after.Unsettled) > 0 || after.Scope.Forgotten) {
		return fmt.Errorf("lease: scope %s: open with %d unsettled leases, forgotten %t (I6)", after.Scope.Scope, len(after.Unsettled), after.Scope.Forgotten)
	}
	before := make(map[string]Lease, len(c.Leases)+len(c.Unsettled))
	for _, l := range c.Leases {
		before[l.ID] = l
	}
	for _, l := range c.Unsettled {
		before[l.ID] = l
	}
	for _, l := range ch.Leases {
		old, known := before[l.ID]
		if err := validateStep(c.Scope, after.Scope, old, known, l); err != nil {
			return err
		}
		if err := validateSet(c, after, old, known, l); err != nil {
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
		if l.Purpose == Work && (was.State != Open || is.State != Open) {
			return fmt.Errorf("lease: %s: granted for work on a scope that is %s (I6)", l.ID, was.State)
		}
		if begins(l) && l.Epoch > was.Epoch && l.Epoch == is.Epoch {
			return nil
		}
		return fmt.Errorf("lease: %s: new lease in state %s with epoch %d over %d (I2)", l.ID, l.State, l.Epoch, was.Epoch)
	}
	if l.Epoch != old.Epoch || l.Session != old.Session || l.Node != old.Node || l.Scope != old.Scope || l.Holder != old.Holder {
		return fmt.Errorf("lease: %s: identity changed", l.ID)
	}
	if rank(l.State) >= rank(Draining) && l.EndReason == "" {
		return fmt.Errorf("lease: %s: %s without a reason", l.ID, l.State)
	}
	if rank(l.State) < rank(old.State) {
		return fmt.Errorf("lease: %s: state goes back from %s to %s", l.ID, old.State, l.State)
	}
	return nil
}

// validateSet demands a new set version of a session that gains a lease, loses
// one, or must stop working under one.
func validateSet(c, after Case, old Lease, known bool, l Lease) error {
	was, loaded := c.Sessions[l.Session]
	moved := !known || (rank(l.State) >= rank(Draining) && l.State != old.State)
	if is := after.Sessions[l.Session]; loaded && moved && is.SetVersion <= was.SetVersion {
		return fmt.Errorf("lease: %s: becomes %s while its session stays at set version %d", l.ID, l.State, was.SetVersion)
	}
	return nil
}

// begins reports whether a lease may come into being in this state: granted to
// a session, or, to a person, live at once.
func begins(l Lease) bool {
	return l.State == Granted || (l.byPerson() && l.State == Live)
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
