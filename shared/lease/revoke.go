package lease

import "fmt"

// NodeRevoked is the reason of every refusal to a node that may not act any
// more.
const NodeRevoked Reason = "node-revoked"

// RevokeRequest is a person's decision that a node may not act any more.
type RevokeRequest struct {
	Node   string
	Actor  string
	Reason string
}

// Revoke ends the session of a node that may not act any more. open is its
// session that has not ended, or nil.
//
// No heartbeat moves the session's end from here on, so that its leases, which
// Settle makes drain, are over at a time that is known: when its process must
// have stopped by itself. They are given to nobody earlier, since that process
// may not have heard of it (DESIGN 3, Session 7). RetryAfter says when.
func Revoke(f Facts, open *Session, r RevokeRequest) (Change, Answer) {
	if open == nil {
		return Change{}, Answer{Code: AlreadyEnded, Detail: "node " + r.Node + " has no session"}
	}
	s := *open
	left := max(f.Remaining(s)+f.LockDelay, f.pauseLeft(s.TTL, f.LockDelay))
	s.End, s.EndedAt = SessionRevoked, f.Now
	s.SetVersion++ // nothing of what it has applied holds any more
	line := Audit{At: f.stamp(), Actor: r.Actor, Action: "session-revoked", Node: s.Node, Reason: joinDetail("session "+s.ID, r.Reason)}
	return Change{Sessions: []Session{s}, Audit: []Audit{line}}, Answer{Code: Done, Session: &s, RetryAfter: left}
}

// revoked ends a live lease of a revoked session: early while its process may
// still act, else at once.
func (f Facts) revoked(p Policy, c Case, l Lease, s Session) Change {
	const detail = "its node was revoked"
	if f.silent(s, f.delay(p)) {
		return f.end(p, c, l, s, Revoked, ending{by: Authority, detail: detail})
	}
	return f.drain(l, s, Revoked, Authority, detail)
}

// ended is the refusal to a session that is over.
func (s Session) ended() Answer {
	reason := SessionEnded
	if s.End == SessionRevoked {
		reason = NodeRevoked
	}
	return reject(reason, fmt.Sprintf("session %s was %s", s.ID, s.End))
}
