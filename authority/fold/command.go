package fold

import (
	"time"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// Verb names what a command does, in logs and metrics.
type Verb string

// The verbs.
const (
	VerbRegister     Verb = "register"
	VerbAcquire      Verb = "acquire"
	VerbClaim        Verb = "claim"
	VerbRenew        Verb = "renew"
	VerbRelease      Verb = "release"
	VerbClose        Verb = "close"
	VerbForceRelease Verb = "force-release"
	VerbSettle       Verb = "settle"
	VerbAccount      Verb = "account"
	VerbReconcile    Verb = "reconcile"
	VerbResolve      Verb = "resolve"
)

// Command is one request with its identity. A command of the authority itself
// has no ID: it is idempotent by its nature and nothing is stored for it.
type Command struct {
	store.Command
	Action Action
}

// Witness is a verified receipt that a node brought along.
type Witness struct {
	Scope  scope.Scope
	Policy lease.Policy
	lease.Witness
}

// Action is what a command does and what it needs loaded. The constructors
// below are the only source of valid ones; the policy is the one in force when
// the request came in.
type Action struct {
	Verb      Verb
	Scope     scope.Scope // zero for what concerns a session alone
	Session   string      // the session that speaks, or empty
	Node      string      // register: whose open session is looked for
	Holder    lease.HolderKind
	Witnesses []Witness
	evidence  bool // what the scope's ended leases left behind is decided upon

	rule func(f lease.Facts, c lease.Case) (lease.Change, lease.Answer)
}

// Acquire asks for a scope.
func Acquire(s scope.Scope, p lease.Policy, r lease.AcquireRequest) Action {
	return Action{Verb: VerbAcquire, Scope: s, Session: r.Session, Holder: r.Holder.Kind,
		rule: func(f lease.Facts, c lease.Case) (lease.Change, lease.Answer) { return lease.Acquire(f, p, c, r) }}
}

// Claim confirms a grant.
func Claim(s scope.Scope, p lease.Policy, r lease.Ref) Action {
	return Action{Verb: VerbClaim, Scope: s, Session: r.Session,
		rule: func(f lease.Facts, c lease.Case) (lease.Change, lease.Answer) { return lease.Claim(f, p, c, r) }}
}

// Renew moves a lease's own limit to extend from now.
func Renew(s scope.Scope, p lease.Policy, r lease.Ref, extend time.Duration) Action {
	return Action{Verb: VerbRenew, Scope: s, Session: r.Session,
		rule: func(f lease.Facts, c lease.Case) (lease.Change, lease.Answer) {
			return lease.Renew(f, p, c, r, extend)
		}}
}

// Release ends a lease by its holder.
func Release(s scope.Scope, p lease.Policy, r lease.ReleaseRequest) Action {
	return Action{Verb: VerbRelease, Scope: s, Session: r.Session,
		rule: func(f lease.Facts, c lease.Case) (lease.Change, lease.Answer) { return lease.Release(f, p, c, r) }}
}

// ForceRelease ends a lease by a person's decision.
func ForceRelease(s scope.Scope, p lease.Policy, r lease.ForceReleaseRequest) Action {
	return Action{Verb: VerbForceRelease, Scope: s, evidence: true,
		rule: func(f lease.Facts, c lease.Case) (lease.Change, lease.Answer) {
			return lease.ForceRelease(f, p, c, r)
		}}
}

// Account is the word of a node on a lease of its own that has ended.
func Account(s scope.Scope, p lease.Policy, r lease.AccountRequest) Action {
	return Action{Verb: VerbAccount, Scope: s, Session: r.Session, evidence: true,
		rule: func(f lease.Facts, c lease.Case) (lease.Change, lease.Answer) { return lease.Account(f, p, c, r) }}
}

// Reconcile claims a scope for a person who reconciles it.
func Reconcile(s scope.Scope, p lease.Policy, r lease.ReconcileRequest) Action {
	return Action{Verb: VerbReconcile, Scope: s, Holder: lease.HolderPerson,
		rule: func(f lease.Facts, c lease.Case) (lease.Change, lease.Answer) {
			return lease.ReconcileByPerson(f, p, c, r)
		}}
}

// Resolve records what a reconciler saw, and reopens.
func Resolve(s scope.Scope, p lease.Policy, r lease.ResolveRequest) Action {
	return Action{Verb: VerbResolve, Scope: s, Session: r.Session, evidence: true,
		rule: func(f lease.Facts, c lease.Case) (lease.Change, lease.Answer) { return lease.Resolve(f, p, c, r) }}
}

// Settle ends whatever of a scope is over.
func Settle(s scope.Scope, p lease.Policy) Action {
	return Action{Verb: VerbSettle, Scope: s,
		rule: func(f lease.Facts, c lease.Case) (lease.Change, lease.Answer) {
			return f.Settle(p, c), lease.Answer{Code: lease.Done}
		}}
}

// Register opens or resumes the session of a node. The witnesses must have
// been verified.
func Register(r lease.RegisterRequest, witnesses []Witness) Action {
	return Action{Verb: VerbRegister, Node: r.Node, Witnesses: witnesses,
		rule: func(f lease.Facts, c lease.Case) (lease.Change, lease.Answer) {
			return lease.Register(f, openOf(c, r.Node), r)
		}}
}

// Close ends a session by its own process.
func Close(session, nonce string) Action {
	return Action{Verb: VerbClose, Session: session,
		rule: func(f lease.Facts, c lease.Case) (lease.Change, lease.Answer) {
			s, ok := c.Sessions[session]
			if !ok {
				return lease.Change{}, lease.Answer{Code: lease.Rejected, Reason: lease.SessionUnknown, Detail: "session " + session}
			}
			return lease.Close(f, s, nonce)
		}}
}

// Needs says what a transaction for cmds must lock and load. Commands with an
// ID appear in Batch.Commands in their order.
func Needs(cmds []Command) store.Batch {
	var b store.Batch
	scopes, sessions, nodes := seen[scope.Scope]{}, seen[string]{}, seen[string]{}
	for _, c := range cmds {
		if c.ID != "" {
			b.Commands = append(b.Commands, c.Command)
		}
		scopes.add(&b.Scopes, c.Action.Scope)
		sessions.add(&b.Sessions, c.Action.Session)
		nodes.add(&b.Nodes, c.Action.Node)
		b.Evidence = b.Evidence || c.Action.evidence
		for _, w := range c.Action.Witnesses {
			scopes.add(&b.Scopes, w.Scope)
		}
	}
	return b
}

// seen collects distinct values; the zero value of T is left out.
type seen[T comparable] map[T]bool

func (s seen[T]) add(to *[]T, v T) {
	var zero T
	if v == zero || s[v] {
		return
	}
	s[v] = true
	*to = append(*to, v)
}
