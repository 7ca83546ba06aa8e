package client

import (
	"time"

	"github.com/forgeyard/concurrency/shared/lease"
)

type options struct {
	wait      time.Duration
	holder    *lease.Holder
	commandID string
	purpose   lease.Purpose
	onWait    func(Event)
}

// Option changes how a scope is acquired.
type Option func(*options)

// Wait waits up to d for a busy scope; the default is not to wait.
func Wait(d time.Duration) Option { return func(o *options) { o.wait = d } }

// As names the holder; the default is the process.
func As(kind lease.HolderKind, id string) Option {
	return func(o *options) { o.holder = &lease.Holder{Kind: kind, ID: id} }
}

// CommandID makes a repeat of the call, with the same ULID, attach to the same
// request.
func CommandID(id string) Option { return func(o *options) { o.commandID = id } }

// OnEvent is called with every change of the hold, from a goroutine of the
// library; it must not block.
func OnEvent(f func(Event)) Option { return func(o *options) { o.onWait = f } }

// ToReconcile asks for a scope that is blocked, in order to find out what its
// former holders left behind and to reopen it.
func ToReconcile() Option { return func(o *options) { o.purpose = lease.Reconcile } }
