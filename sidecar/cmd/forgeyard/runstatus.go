package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/forgeyard/concurrency/sidecar/client"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// runStatus is what --status-file gets.
type runStatus struct {
	Scope    string `json:"scope"`
	Lease    string `json:"lease,omitempty"`
	Epoch    string `json:"epoch,omitempty"`
	ExitCode int    `json:"exit_code"`
	Reason   string `json:"reason"` // ended, or why not
	Detail   string `json:"detail,omitempty"`
	Unknown  int    `json:"unknown_effects"`
	Holder   string `json:"holder,omitempty"` // who has the scope instead
}

// finish writes the status file and makes the exit code. Our own codes come
// with a line on standard error.
func (r *underScope) finish(code int, reason, detail string) error {
	r.status.Scope, r.status.ExitCode, r.status.Reason, r.status.Detail = r.scope.String(), code, reason, detail
	if err := r.writeStatus(); err != nil {
		fmt.Fprintf(r.app.Err, "forgeyard: %v\n", err)
	}
	if code == 0 {
		return nil
	}
	return &exitError{code: code, text: detail}
}

func (r *underScope) writeStatus() error {
	if r.flags.statusFile == "" {
		return nil
	}
	text, err := json.MarshalIndent(r.status, "", "  ")
	if err != nil {
		return fmt.Errorf("write status file: %w", err)
	}
	if err := os.WriteFile(r.flags.statusFile+".new", append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write status file: %w", err)
	}
	if err := os.Rename(r.flags.statusFile+".new", r.flags.statusFile); err != nil {
		return fmt.Errorf("write status file: %w", err)
	}
	return nil
}

// refused maps the end of a request to its code.
func (r *underScope) refused(err error) error {
	var busy *client.BusyError
	var refused *client.RefusedError
	switch {
	case errors.Is(err, errInterrupted):
		return r.finish(exitInterrupted, "interrupted", err.Error())
	case errors.As(err, &busy):
		r.status.Holder = string(busy.Holder.Holder.Kind) + ":" + busy.Holder.Holder.ID
		return r.finish(exitWaitTimeout, "wait-timeout", fmt.Sprintf("%v. Wait longer (--wait), or see `forgeyard concurrency explain %s`", err, r.scope))
	case errors.As(err, &refused) && refused.Reason == string(ownership.Blocked):
		return r.finish(exitBlocked, refused.Reason, refused.Detail)
	case errors.As(err, &refused) && refused.Reason == string(ownership.Superseded):
		return r.finish(exitSuperseded, refused.Reason, refused.Detail)
	case errors.As(err, &refused):
		return r.finish(exitRefused, refused.Reason, refused.Detail)
	}
	return r.finish(exitUnreachable, "unreachable", err.Error())
}

// lost maps the loss of a hold to its code.
func (r *underScope) lost(err error) error {
	var lost *client.LostError
	if errors.As(err, &lost) {
		if s := lost.Successor; s != nil {
			r.status.Holder = string(s.Holder.Kind) + ":" + s.Holder.ID
		}
		if lost.Reason == string(ownership.Superseded) {
			return r.finish(exitSuperseded, lost.Reason, err.Error())
		}
		return r.finish(exitLost, lost.Reason, err.Error())
	}
	return r.finish(exitLost, "lost", err.Error())
}
