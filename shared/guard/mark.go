package guard

import (
	"fmt"

	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/scope"
)

// Key is what tokens are compared within. Exclusive scopes have slot 0; those
// of a capacity scope order within a slot only (FC-105).
type Key struct {
	Scope scope.Scope
	Slot  uint32
}

// String reads "acme/environment:prod" or "acme/runner-fleet:big#3".
func (k Key) String() string {
	if k.Slot == 0 {
		return k.Scope.String()
	}
	return fmt.Sprintf("%s#%d", k.Scope, k.Slot)
}

// Mark is the token of one lease; the zero Mark is "nothing seen".
type Mark struct {
	Epoch epoch.Epoch `json:"epoch"`
	Lease string      `json:"lease"`
}

// StaleError says that a higher token was seen.
type StaleError struct {
	Key     Key
	Seen    epoch.Epoch
	Offered epoch.Epoch
}

// Error implements error.
func (e *StaleError) Error() string {
	return fmt.Sprintf("guard: token %s of %s is below %s, which was seen", e.Offered, e.Key, e.Seen)
}

// ConflictError says that two leases came with one token. It is an alarm: the
// authority issued an epoch twice, or somebody forges tokens.
type ConflictError struct {
	Key           Key
	Epoch         epoch.Epoch
	Seen, Offered string // leases
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("guard: token %s of %s came with lease %s and before with lease %s", e.Epoch, e.Key, e.Offered, e.Seen)
}

// Judge compares an offered mark with the one that was seen. It reports
// whether the offered one is higher and must be stored before the write; it
// fails with *StaleError or *ConflictError.
func Judge(k Key, seen, offered Mark) (higher bool, err error) {
	switch {
	case offered.Epoch < seen.Epoch:
		return false, &StaleError{Key: k, Seen: seen.Epoch, Offered: offered.Epoch}
	case offered.Epoch > seen.Epoch:
		return true, nil
	case offered.Lease != seen.Lease:
		return false, &ConflictError{Key: k, Epoch: seen.Epoch, Seen: seen.Lease, Offered: offered.Lease}
	}
	return false, nil
}
