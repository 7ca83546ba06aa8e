package coordinator

import (
	"context"
	"slices"
	"time"

	"github.com/forgeyard/concurrency/authority/access"
	"github.com/forgeyard/concurrency/authority/roster"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

const (
	recentLeases = 10
	recentAudit  = 20
)

// Explanation answers what a person wants to know of a scope (FC-85).
type Explanation struct {
	Scope      scope.Scope
	State      string // derived: free, owned, granted, draining, or the stored one
	Epoch      epoch.Epoch
	Reason     string
	Holder     *lease.Summary
	Drain      *Drain
	Holds      []roster.Hold // as the holder's sidecar sees it, when it answered
	Reached    bool          // the holder's sidecar answered
	Via        string        // otherwise, the other replica that it is connected to; empty: none is known
	Recent     []lease.Lease // ended, newest first
	Audit      []lease.Audit
	Policy     lease.Policy
	PolicyFrom string
	TimePause  time.Duration
	Advice     []string
}

// Drain says why a lease is ending and when it must have ended.
type Drain struct {
	Reason lease.EndReason
	By     string
	Detail string
	In     time.Duration // at the latest
}

// The derived states (DESIGN 3, Scope 3).
const (
	StateFree     = "free"
	StateOwned    = "owned"
	StateDraining = "draining"
)

// Explain tells holder, since, liveness, and what the reader can do.
func (c *Coordinator) Explain(ctx context.Context, p access.Person, text string) (Explanation, error) {
	if err := mayRead(p); err != nil {
		return Explanation{}, err
	}
	view, err := c.visible(ctx, p, text)
	if err != nil {
		return Explanation{}, err
	}
	x := Explanation{Scope: view.Record.Scope, Epoch: view.Record.Epoch, Reason: view.Record.Reason, State: StateFree}
	x.Policy, x.PolicyFrom = c.cfg.Policies.For(x.Scope)
	x.TimePause = c.cfg.Engine.History().Pause
	if view.Record.State != lease.Open && view.Record.State != "" {
		x.State = string(view.Record.State)
	}
	c.explainHolder(ctx, view, &x)
	if err := c.explainPast(ctx, &x); err != nil {
		return Explanation{}, err
	}
	x.Advice = advise(x)
	return x, nil
}

func (c *Coordinator) explainHolder(ctx context.Context, view store.ScopeView, x *Explanation) {
	if len(view.Leases) == 0 {
		return
	}
	l := view.Leases[0]
	s := view.Sessions[l.Session]
	f := c.facts(c.cfg.Engine.StoreNow())
	x.State = StateOwned
	x.Holder = &lease.Summary{
		Scope: l.Scope, Lease: l.ID, Holder: l.Holder, Node: l.Node, Epoch: l.Epoch, State: l.State,
		Since: l.AcquiredAt, Alive: f.Alive(s), ExpiresIn: f.Remaining(s),
	}
	if l.State == lease.Draining {
		x.State = StateDraining
		left := l.DrainUntil.Add(x.Policy.LockDelay).Sub(f.Now)
		x.Drain = &Drain{Reason: l.EndReason, By: l.EndedBy, Detail: l.EndDetail, In: max(left, 0)}
	}
	reports, _ := c.cfg.Roster.Inspect(ctx, []string{l.Node}, roster.Question{})
	if len(reports) == 0 {
		x.Via = c.elsewhere(ctx, s, x.Holder.Alive)
	}
	for _, r := range reports {
		x.Reached = true
		for _, h := range r.Holds {
			if h.Scope == x.Scope.String() {
				x.Holds = append(x.Holds, h)
			}
		}
	}
}

// elsewhere is the other replica that the node of a session is connected to.
func (c *Coordinator) elsewhere(ctx context.Context, s lease.Session, alive bool) string {
	n, err := c.cfg.Store.Node(ctx, s.Node)
	if err != nil {
		return "" // it is a hint for people
	}
	if connected, via := c.connected(NodeRow{Name: s.Node, Standing: n, Alive: alive}); connected && via != c.cfg.Replica {
		return via
	}
	return ""
}

func (c *Coordinator) explainPast(ctx context.Context, x *Explanation) error {
	past, err := c.cfg.Store.Leases(ctx, store.LeaseFilter{Scope: x.Scope, Ended: true, Limit: maxLeases})
	if err != nil {
		return err
	}
	past = slices.DeleteFunc(past, func(l lease.Lease) bool { return l.State != lease.Ended })
	slices.SortFunc(past, func(a, b lease.Lease) int { return b.EndedAt.Compare(a.EndedAt) })
	x.Recent = past[:min(len(past), recentLeases)]
	x.Audit, err = c.cfg.Store.Audit(ctx, x.Scope, recentAudit)
	return err
}
