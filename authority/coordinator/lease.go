package coordinator

import (
	"context"
	"errors"
	"time"

	"github.com/forgeyard/concurrency/authority/access"
	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// ForeignTenant is the reason of a request for a scope outside the caller's
// tenants.
const ForeignTenant lease.Reason = "foreign-tenant"

// Request is what every command of a session carries.
type Request struct {
	CommandID string
	Session   string // the one registered on the caller's stream
	Nonce     string
}

// Acquisition asks for a scope.
type Acquisition struct {
	Request
	Scope   string
	Holder  lease.Holder
	Purpose lease.Purpose
	LeaseID string // ULID, fresh
}

// Ref names one lease of the caller.
type Ref struct {
	Request
	Scope string
	Lease string
	Epoch epoch.Epoch
}

func (r Ref) lease() lease.Ref {
	return lease.Ref{Session: r.Session, Nonce: r.Nonce, Lease: r.Lease, Epoch: r.Epoch}
}

// Acquire grants a scope to the caller's session, or says why not.
func (c *Coordinator) Acquire(ctx context.Context, caller Caller, r Acquisition) (lease.Answer, bool, error) {
	if r.Purpose == "" {
		r.Purpose = lease.Work
	}
	if r.Purpose != lease.Work && r.Purpose != lease.Reconcile && r.Purpose != lease.Clean {
		return lease.Answer{}, false, &InputError{Field: "purpose", Value: clip(string(r.Purpose)), Problem: "must be work, reconcile or clean"}
	}
	if err := checkHolder(r.Holder); err != nil {
		return lease.Answer{}, false, err
	}
	if err := checkULID("lease_id", r.LeaseID); err != nil {
		return lease.Answer{}, false, err
	}
	sum := digest("acquire", []any{r.Session, r.Scope, r.Holder, r.Purpose, r.LeaseID})
	return c.onScope(ctx, caller, r.Request, r.Scope, sum, func(s scope.Scope, p lease.Policy) fold.Action {
		return fold.Acquire(s, p, lease.AcquireRequest{
			Session: r.Session, Nonce: r.Nonce, LeaseID: r.LeaseID, Holder: r.Holder, Purpose: r.Purpose,
		})
	})
}

// Claim turns a grant into ownership.
func (c *Coordinator) Claim(ctx context.Context, caller Caller, r Ref) (lease.Answer, bool, error) {
	return c.onScope(ctx, caller, r.Request, r.Scope, digest("claim", []any{r.Session, r.Scope, r.Lease, r.Epoch}),
		func(s scope.Scope, p lease.Policy) fold.Action { return fold.Claim(s, p, r.lease()) })
}

// Renew moves the lease's own limit to extend from now.
func (c *Coordinator) Renew(ctx context.Context, caller Caller, r Ref, extend time.Duration) (lease.Answer, bool, error) {
	if extend <= 0 {
		return lease.Answer{}, false, &InputError{Field: "extend", Value: extend.String(), Problem: "must be above 0"}
	}
	return c.onScope(ctx, caller, r.Request, r.Scope, digest("renew", []any{r.Session, r.Scope, r.Lease, r.Epoch, extend}),
		func(s scope.Scope, p lease.Policy) fold.Action { return fold.Renew(s, p, r.lease(), extend) })
}

// Release ends a lease on its holder's quiescence receipt.
func (c *Coordinator) Release(ctx context.Context, caller Caller, r Ref, why lease.EndReason, q lease.Quiescence) (lease.Answer, bool, error) {
	if why != lease.Released && why != lease.CallerGone {
		return lease.Answer{}, false, &InputError{Field: "why", Value: clip(string(why)), Problem: "must be released or caller-gone"}
	}
	if err := checkQuiescence(q); err != nil {
		return lease.Answer{}, false, err
	}
	return c.onScope(ctx, caller, r.Request, r.Scope, digest("release", []any{r.Session, r.Scope, r.Lease, r.Epoch, why, q.Unknown}),
		func(s scope.Scope, p lease.Policy) fold.Action {
			return fold.Release(s, p, lease.ReleaseRequest{Ref: r.lease(), Why: why, Quiescence: q})
		})
}

// onScope checks what all commands of a session on one scope have in common,
// and runs the action.
func (c *Coordinator) onScope(ctx context.Context, caller Caller, r Request, text string, sum [32]byte,
	action func(scope.Scope, lease.Policy) fold.Action,
) (lease.Answer, bool, error) {
	s, err := parseScope("scope", text)
	if err != nil {
		return lease.Answer{}, false, err
	}
	if err := access.NodeMay(caller.Node, caller.Tenants, s); err != nil {
		return refuse(ForeignTenant, err.Error())
	}
	id, err := c.identify(caller.principal(), r.CommandID, sum)
	if err != nil {
		return refuseCommand(err)
	}
	p, _ := c.cfg.Policies.For(s)
	return c.do(ctx, fold.Command{Command: id, Action: action(s, p)})
}

// refuse is an answer that was never stored: the request could not become a
// command.
func refuse(r lease.Reason, detail string) (lease.Answer, bool, error) {
	return lease.Answer{Code: lease.Rejected, Reason: r, Detail: detail}, false, nil
}

// errTooOld says that a command id is older than results are kept.
var errTooOld = errors.New("command_id is older than results are kept")

func refuseCommand(err error) (lease.Answer, bool, error) {
	if errors.Is(err, errTooOld) {
		return refuse(lease.CommandTooOld, err.Error())
	}
	return lease.Answer{}, false, err
}

// identify makes a command's identity of what the caller sent.
func (c *Coordinator) identify(principal, id string, sum [32]byte) (store.Command, error) {
	if err := checkCommandID(id, c.cfg.Clock.Now(), c.cfg.Retention.Commands); err != nil {
		return store.Command{}, err
	}
	return store.Command{ID: id, Principal: principal, Digest: sum}, nil
}
