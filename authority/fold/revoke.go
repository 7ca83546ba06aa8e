package fold

import "github.com/forgeyard/concurrency/shared/lease"

// VerbRevoke is a person's decision about a node.
const VerbRevoke Verb = "revoke"

// Revoke ends the session of a node that may not act any more. It is
// idempotent by its nature.
func Revoke(r lease.RevokeRequest) Action {
	return Action{Verb: VerbRevoke, Node: r.Node,
		rule: func(f lease.Facts, c lease.Case) (lease.Change, lease.Answer) {
			return lease.Revoke(f, openOf(c, r.Node), r)
		}}
}

// openOf returns the session of the node that has not ended, or nil.
func openOf(c lease.Case, node string) *lease.Session {
	for _, s := range c.Sessions {
		if s.Node == node && s.End == lease.SessionOpen {
			return &s
		}
	}
	return nil
}
