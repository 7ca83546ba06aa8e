package client

import (
	"errors"
	"fmt"

	"github.com/forgeyard/concurrency/shared/lease"
)

// ErrUnreachable says that the sidecar, or behind it the authority, did not
// answer.
var ErrUnreachable = errors.New("client: sidecar or authority unreachable")

// BusyError says who has the scope.
type BusyError struct {
	Scope   string
	Holder  lease.Summary
	Waited  bool // the whole wait
	Message string
}

// Error implements error.
func (e *BusyError) Error() string {
	h := e.Holder
	alive := "alive"
	if !h.Alive {
		alive = "silent"
	}
	return fmt.Sprintf("%s is held by %s %s on node %s with epoch %d since %s; its node is %s",
		e.Scope, h.Holder.Kind, h.Holder.ID, h.Node, h.Epoch, h.Since.Format("15:04:05 MST"), alive)
}

// RefusedError says why a request will not be granted as it is.
type RefusedError struct {
	Reason string // refused, blocked, wait-timeout, expired
	Detail string
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Reason + ": " + e.Detail }

// LostError is the cause of a hold's context: what took it, and who has it now
// (FC-27).
type LostError struct {
	Scope     string
	Epoch     uint64
	Reason    string
	Detail    string
	Successor *lease.Summary // nil when nobody is known to have it
}

// Error implements error.
func (e *LostError) Error() string {
	text := fmt.Sprintf("%s with epoch %d was lost: %s", e.Scope, e.Epoch, e.Reason)
	if e.Detail != "" {
		text += " (" + e.Detail + ")"
	}
	if s := e.Successor; s != nil {
		text += fmt.Sprintf("; %s %s on node %s has it with epoch %d", s.Holder.Kind, s.Holder.ID, s.Node, s.Epoch)
	}
	return text
}
