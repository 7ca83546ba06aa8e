package coordinator

import (
	"context"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// ReceiptInvalid is the reason of a registration whose receipts this authority
// never issued to this node: it is not what it says, or its memory is damaged.
const ReceiptInvalid lease.Reason = "receipt-invalid"

// Receipt is what a node brings along of an earlier grant.
type Receipt struct {
	Scope string
	Epoch epoch.Epoch
	Seal  epoch.Receipt
}

// Registration is a node's request for its session.
type Registration struct {
	CommandID   string
	Nonce       string
	BootID      string
	LockFile    lease.LockFile
	TTL         time.Duration
	Resume      string // the former session, or empty
	ResumeNonce string
	Receipts    []Receipt
}

// Register opens or resumes the session of a node. Valid receipts ahead of the
// store raise the generation first; an invalid one refuses the node (FC-108).
func (c *Coordinator) Register(ctx context.Context, caller Caller, r Registration) (lease.Answer, bool, error) {
	if err := c.checkRegistration(r); err != nil {
		return lease.Answer{}, false, err
	}
	if r.TTL < lease.TTLFloor || r.TTL > c.cfg.MaxTTL {
		return refuse(lease.TTLOutOfBounds, fmt.Sprintf("session ttl %s: this authority allows %s to %s", r.TTL, lease.TTLFloor, c.cfg.MaxTTL))
	}
	witnesses, err := c.verify(caller, r.Receipts)
	if err != nil {
		c.metrics.invalidReceipts.Inc()
		c.cfg.Log.Error("node refused: receipt not of this authority", zap.String("node", caller.Node), zap.Error(err))
		return refuse(ReceiptInvalid, err.Error())
	}
	id, err := c.identify(caller.principal(), r.CommandID, digest("register", []any{
		r.Nonce, r.BootID, r.LockFile, r.TTL, r.Resume, r.ResumeNonce,
	}))
	if err != nil {
		return refuseCommand(err)
	}
	if refusal, err := c.admit(ctx, caller); err != nil || refusal != "" {
		return c.refuseNode(caller, refusal, err)
	}
	a, replayed, err := c.do(ctx, fold.Command{Command: id, Action: fold.Register(lease.RegisterRequest{
		Session: ulid.Make().String(), Node: caller.Node, Tenants: caller.Tenants,
		Nonce: r.Nonce, BootID: r.BootID, LockFile: r.LockFile, TTL: r.TTL,
		Resume: r.Resume, ResumeNonce: r.ResumeNonce,
	}, witnesses)})
	switch {
	case err != nil:
		return a, replayed, err
	case a.Code == lease.Wait:
		c.metrics.nodeConflicts.Inc()
		c.cfg.Log.Warn("node conflict", zap.String("node", caller.Node), zap.String("detail", a.Detail))
	case a.Session != nil:
		if refusal, err := c.admitted(ctx, caller); err != nil || refusal != "" {
			return c.refuseNode(caller, refusal, err)
		}
	}
	return a, replayed, nil
}

func (c *Coordinator) refuseNode(caller Caller, refusal string, err error) (lease.Answer, bool, error) {
	if err != nil {
		return lease.Answer{}, false, err
	}
	c.metrics.refusedNodes.Inc()
	c.cfg.Log.Warn("node refused", zap.String("node", caller.Node), zap.String("reason", refusal))
	return refuse(lease.NodeRevoked, refusal)
}

func (c *Coordinator) checkRegistration(r Registration) error {
	if err := checkText("nonce", r.Nonce, MaxText); err != nil {
		return err
	}
	if err := checkText("boot_id", r.BootID, MaxText); err != nil {
		return err
	}
	if len(r.Receipts) > MaxReceipts {
		return &InputError{Field: "receipts", Value: fmt.Sprint(len(r.Receipts)), Problem: fmt.Sprintf("at most %d", MaxReceipts)}
	}
	return nil
}

// verify turns receipts into witnesses; only the authority's own word counts.
func (c *Coordinator) verify(caller Caller, receipts []Receipt) ([]fold.Witness, error) {
	out := make([]fold.Witness, 0, len(receipts))
	for i, r := range receipts {
		s, err := parseScope(fmt.Sprintf("receipts[%d].scope", i), r.Scope)
		if err != nil {
			return nil, err
		}
		if !c.cfg.Sealer.Key.Verify(r.Seal, c.cfg.Sealer.Authority, s.ID(), r.Epoch, caller.Node) {
			return nil, fmt.Errorf("receipts[%d]: %s epoch %d was not sealed by authority %s for node %s",
				i, s, r.Epoch, c.cfg.Sealer.Authority, caller.Node)
		}
		p, _ := c.cfg.Policies.For(s)
		out = append(out, fold.Witness{Scope: s, Policy: p, Witness: lease.Witness{Epoch: r.Epoch, Node: caller.Node}})
	}
	return out, nil
}

// Heartbeat renews a session. anew says that the node must register again, with
// its receipts (DESIGN 5.8): it has applied a set that the store has never had,
// or the generation has risen since it joined, so that what it was granted may
// have been forgotten.
func (c *Coordinator) Heartbeat(ctx context.Context, caller Caller, b lease.Beat, joined epoch.Generation) (a lease.Answer, anew bool, err error) {
	a, err = c.cfg.Engine.Beat(ctx, b)
	if err != nil {
		return lease.Answer{}, false, err
	}
	if a.Reason == lease.NodeRevoked {
		a.Detail = c.whyRevoked(ctx, caller)
		return a, false, nil
	}
	if a.Code == lease.Renewed && a.Version.Before(b.Applied) {
		c.metrics.ahead.Inc()
		c.cfg.Log.Error("node reports a set ahead of the store", zap.String("node", caller.Node),
			zap.Uint64("applied", b.Applied.Version), zap.Uint64("stored", a.Version.Version))
		return lease.Answer{}, true, nil
	}
	return a, a.Code == lease.Renewed && a.Version.Generation > joined, nil
}

// Set is a session's set of leases as its node may apply it.
type Set struct {
	store.Set
	Remaining time.Duration // of the session, counted from the sending of the request
	Refused   lease.Reason  // empty: the set holds
	Detail    string        // of the refusal
}

// FetchSet reads the set of the caller's session.
func (c *Coordinator) FetchSet(ctx context.Context, caller Caller, session, nonce string, known []string) (Set, error) {
	if len(known) > MaxKnown {
		return Set{}, &InputError{Field: "known", Value: fmt.Sprint(len(known)), Problem: fmt.Sprintf("at most %d", MaxKnown)}
	}
	got, err := c.cfg.Store.Set(ctx, session, known)
	if err != nil {
		return Set{}, err
	}
	s := got.Session
	switch {
	case s.ID == "" || s.Node != caller.Node:
		return Set{Refused: lease.SessionUnknown}, nil
	case s.End == lease.SessionRevoked:
		return Set{Refused: lease.NodeRevoked, Detail: c.whyRevoked(ctx, caller)}, nil
	case s.End != lease.SessionOpen:
		return Set{Refused: lease.SessionEnded}, nil
	case s.Nonce != nonce:
		return Set{Refused: lease.WrongNonce}, nil
	}
	if got.Version.Generation < c.cfg.Engine.History().Generation {
		// Read before a raise, or from a history that was cut: not to be applied.
		return Set{}, fmt.Errorf("fetch set: %w", engineStale(c.cfg.Engine.Renew(ctx)))
	}
	return Set{Set: got, Remaining: c.facts(got.Now).Remaining(s)}, nil
}

func engineStale(err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: the set was read before the generation rose", store.ErrConflict)
}

// facts for reading; nothing is decided with them.
func (c *Coordinator) facts(now time.Time) lease.Facts {
	return lease.Facts{
		Now: now, Generation: c.cfg.Engine.History().Generation, Pause: lease.NoPause(),
		MaxTTL: c.cfg.MaxTTL, LockDelay: c.cfg.LockDelay,
	}
}

// Close ends the caller's session: its process closed its gates and cut its
// connections before. What it held is settled at once.
func (c *Coordinator) Close(ctx context.Context, caller Caller, commandID, session, nonce string) (lease.Answer, bool, error) {
	id, err := c.identify(caller.principal(), commandID, digest("close", session))
	if err != nil {
		return refuseCommand(err)
	}
	a, replayed, err := c.do(ctx, fold.Command{Command: id, Action: fold.Close(session, nonce)})
	if err != nil || a.Code != lease.Done || replayed {
		return a, replayed, err
	}
	set, err := c.cfg.Store.Set(ctx, session, nil)
	if err != nil { // the sweeper will find them
		return a, replayed, nil
	}
	held := make([]scope.Scope, 0, len(set.Leases))
	for _, l := range set.Leases {
		held = append(held, l.Scope)
	}
	go c.settleAll(context.WithoutCancel(ctx), held)
	return a, replayed, nil
}
