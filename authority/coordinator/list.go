package coordinator

import (
	"context"
	"slices"
	"time"

	"github.com/forgeyard/concurrency/authority/access"
	"github.com/forgeyard/concurrency/authority/roster"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// Limits of lists.
const (
	defaultLeases  = 1000
	maxLeases      = 10000
	defaultEffects = 100
	maxEffects     = 1000
)

// Status is the state of the authority in a few numbers, within the tenants of
// the caller.
type Status struct {
	AuthorityID    string
	Incarnation    string
	Generation     epoch.Generation
	Store          string
	Software       string
	NodesConnected int
	SessionsAlive  int
	LeasesLive     int
	LeasesDraining int
	ScopesBlocked  int
	Pause          time.Duration // what is left of the time pause for the longest session
}

// LeaseQuery selects leases. Zero fields select everything.
type LeaseQuery struct {
	Scope string
	Node  string
	Ended bool
	Limit int // 0: 1000; at most 10000
}

// LeaseRow is a lease with the liveness of its session.
type LeaseRow struct {
	Lease     lease.Lease
	Alive     bool
	ExpiresIn time.Duration
}

// NodeRow is a node with its session, as people see it.
type NodeRow struct {
	Name      string
	Standing  store.Node    // what is known of it beside its sessions
	Session   lease.Session // empty: it has none
	Tenants   []string      // those the caller may see
	Connected bool          // to this replica, or, as far as this one knows, to Via
	Via       string        // the replica
	Alive     bool
	ExpiresIn time.Duration
	Leases    int
	Version   lease.SetVersion
}

// Status counts.
func (c *Coordinator) Status(ctx context.Context, p access.Person) (Status, error) {
	nodes, err := c.Nodes(ctx, p)
	if err != nil {
		return Status{}, err
	}
	leases, err := c.leases(ctx, p, scope.Scope{}, LeaseQuery{Limit: maxLeases})
	if err != nil {
		return Status{}, err
	}
	h := c.cfg.Engine.History()
	st := Status{
		AuthorityID: c.cfg.Sealer.Authority, Incarnation: c.cfg.Incarnation, Generation: h.Generation,
		Store: c.cfg.StoreKind, Software: c.cfg.Software, Pause: h.Pause,
	}
	for _, n := range nodes {
		if n.Connected {
			st.NodesConnected++
		}
		if n.Alive {
			st.SessionsAlive++
		}
	}
	for _, l := range leases {
		switch l.State {
		case lease.Live, lease.Granted:
			st.LeasesLive++
		case lease.Draining:
			st.LeasesDraining++
		case lease.Ended:
		}
	}
	closed, err := c.cfg.Store.Closed(ctx, maxLeases)
	for _, r := range closed {
		if p.Sees(r.Scope.Tenant()) {
			st.ScopesBlocked++
		}
	}
	return st, err
}

// Leases lists leases with the liveness of their sessions.
func (c *Coordinator) Leases(ctx context.Context, p access.Person, q LeaseQuery) ([]LeaseRow, error) {
	if err := mayRead(p); err != nil {
		return nil, err
	}
	var s scope.Scope
	if q.Scope != "" {
		var err error
		if s, err = parseScope("scope", q.Scope); err != nil {
			return nil, err
		}
	}
	found, err := c.leases(ctx, p, s, q)
	if err != nil {
		return nil, err
	}
	sessions, err := c.sessions(ctx)
	if err != nil {
		return nil, err
	}
	f := c.facts(c.cfg.Engine.StoreNow())
	rows := make([]LeaseRow, 0, len(found))
	for _, l := range found {
		owner := sessions[l.Session]
		rows = append(rows, LeaseRow{Lease: l, Alive: l.State != lease.Ended && f.Alive(owner), ExpiresIn: f.Remaining(owner)})
	}
	return rows, nil
}

func (c *Coordinator) leases(ctx context.Context, p access.Person, s scope.Scope, q LeaseQuery) ([]lease.Lease, error) {
	limit := q.Limit
	if limit <= 0 {
		limit = defaultLeases
	}
	limit = min(limit, maxLeases)
	var out []lease.Lease
	for _, tenant := range tenantsOf(p, s) {
		got, err := c.cfg.Store.Leases(ctx, store.LeaseFilter{Tenant: tenant, Scope: s, Node: q.Node, Ended: q.Ended, Limit: limit})
		if err != nil {
			return nil, err
		}
		out = append(out, got...)
	}
	return out[:min(len(out), limit)], nil
}

func (c *Coordinator) sessions(ctx context.Context) (map[string]lease.Session, error) {
	all, err := c.cfg.Store.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	out := make(map[string]lease.Session, len(all))
	for _, s := range all {
		out[s.ID] = s
	}
	return out, nil
}

// Nodes lists the sessions that have not ended.
func (c *Coordinator) Nodes(ctx context.Context, p access.Person) ([]NodeRow, error) {
	if err := mayRead(p); err != nil {
		return nil, err
	}
	all, err := c.cfg.Store.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	held, err := c.heldBySession(ctx, p)
	if err != nil {
		return nil, err
	}
	known, err := c.standings(ctx)
	if err != nil {
		return nil, err
	}
	f := c.facts(c.cfg.Engine.StoreNow())
	var rows []NodeRow
	for _, s := range all {
		tenants := slices.DeleteFunc(slices.Clone(s.Tenants), func(t string) bool { return !p.Sees(t) })
		if s.End != lease.SessionOpen || len(tenants) == 0 {
			continue
		}
		row := NodeRow{
			Name: s.Node, Standing: known[s.Node], Session: s, Tenants: tenants,
			Alive: f.Alive(s), ExpiresIn: f.Remaining(s), Leases: held[s.ID], Version: s.Version(f.Generation),
		}
		row.Connected, row.Via = c.connected(row)
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b NodeRow) int { return compare(a.Session.Node, b.Session.Node) })
	return rows, nil
}

func (c *Coordinator) standings(ctx context.Context) (map[string]store.Node, error) {
	all, err := c.cfg.Store.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	out := make(map[string]store.Node, len(all))
	for _, n := range all {
		out[n.Name] = n
	}
	return out, nil
}

// connected says to which replica a node is connected. Of its own connections a
// replica knows; of another's it knows where the node came last, and that it
// has renewed since.
func (c *Coordinator) connected(n NodeRow) (connected bool, via string) {
	switch {
	case c.cfg.Roster.Connected(n.Name):
		return true, c.cfg.Replica
	case n.Alive && n.Standing.Via != "" && n.Standing.Via != c.cfg.Replica:
		return true, n.Standing.Via
	}
	return false, ""
}

func (c *Coordinator) heldBySession(ctx context.Context, p access.Person) (map[string]int, error) {
	leases, err := c.leases(ctx, p, scope.Scope{}, LeaseQuery{Limit: maxLeases})
	if err != nil {
		return nil, err
	}
	held := map[string]int{}
	for _, l := range leases {
		held[l.Session]++
	}
	return held, nil
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// sayWhere adds the replica to ask to the names of nodes that are connected to
// another one.
func (c *Coordinator) sayWhere(names []string, rows []NodeRow) {
	for _, n := range rows {
		if i := slices.Index(names, n.Name); i >= 0 && n.Connected && n.Via != c.cfg.Replica {
			names[i] = n.Name + " (ask replica " + n.Via + ")"
		}
	}
}

// EffectQuery selects effects of the connected sidecars.
type EffectQuery struct {
	Node  string
	Scope string
	State string
	Limit int // per node; 0: 100, at most 1000
}

// EffectRow is an effect with the node whose journal holds it.
type EffectRow struct {
	Node   string
	Effect effect.Effect
}

// Effects asks the connected sidecars, and names the nodes that could not be
// asked: what they know is missing.
func (c *Coordinator) Effects(ctx context.Context, p access.Person, q EffectQuery) (rows []EffectRow, unreachable []string, err error) {
	if q.Scope != "" {
		s, err := parseScope("scope", q.Scope)
		if err != nil {
			return nil, nil, err
		}
		q.Scope = s.String()
	}
	nodes, err := c.Nodes(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	limit := q.Limit
	if limit <= 0 {
		limit = defaultEffects
	}
	var ask []string
	for _, n := range nodes {
		if q.Node == "" || q.Node == n.Session.Node {
			ask = append(ask, n.Session.Node)
		}
	}
	reports, unreachable := c.cfg.Roster.Inspect(ctx, slices.Compact(ask), roster.Question{Effects: true, Limit: min(limit, maxEffects)})
	c.sayWhere(unreachable, nodes)
	for _, r := range reports {
		for _, e := range r.Effects {
			if p.Sees(e.Scope.Tenant()) && (q.Scope == "" || e.Scope.String() == q.Scope) && (q.State == "" || string(e.State) == q.State) {
				rows = append(rows, EffectRow{Node: r.Node, Effect: e})
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b EffectRow) int { return b.Effect.StartedAt.Compare(a.Effect.StartedAt) })
	return rows, unreachable, nil
}
