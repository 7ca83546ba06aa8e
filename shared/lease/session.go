package lease

import (
	"fmt"
	"time"
)

// RegisterRequest opens or resumes the session of a node. Session is a fresh
// ULID, used when a new session is opened. Resume names the former one.
type RegisterRequest struct {
	Session     string
	Node        string
	Tenants     []string
	Nonce       string
	BootID      string
	LockFile    LockFile
	TTL         time.Duration
	Resume      string // session id, or empty
	ResumeNonce string
}

// Register gives a node its session. open is the node's session that has not
// ended, or nil.
//
// While the former session has not run out it can only be resumed, by a
// process that proves the former one dead: same boot, same locked file. In
// every other case the node waits for that end (Wait), so that a cloned data
// directory or a second instance takes nothing over (DESIGN 3, Session 8;
// FC-06, FC-99). A repeat of the request that opened or resumed the session is
// answered alike.
func Register(f Facts, open *Session, r RegisterRequest) (Change, Answer) {
	if open == nil {
		s := f.open(r)
		return Change{Sessions: []Session{s}}, Answer{Code: Registered, Session: &s, Version: s.Version(f.Generation), Remaining: f.Remaining(s)}
	}
	s := *open
	if s.Nonce == r.Nonce {
		return Change{}, Answer{Code: Resumed, Session: &s, Version: s.Version(f.Generation), Remaining: f.Remaining(s)}
	}
	if f.silent(s, f.LockDelay) {
		s.End, s.EndedAt = SessionReplaced, f.Now
		fresh := f.open(r)
		line := Audit{At: f.stamp(), Actor: "node " + s.Node, Action: "session-replaced", Node: s.Node, Reason: "session " + s.ID + " by " + fresh.ID}
		return Change{Sessions: []Session{s, fresh}, Audit: []Audit{line}}, Answer{Code: Registered, Session: &fresh, Version: fresh.Version(f.Generation), Remaining: f.Remaining(fresh)}
	}
	if r.proves(s) {
		s.Nonce, s.Applied = r.Nonce, SetVersion{}
		return Change{Sessions: []Session{s}}, Answer{Code: Resumed, Session: &s, Version: s.Version(f.Generation), Remaining: f.Remaining(s)}
	}
	return Change{}, f.waitFor(s, r)
}

// proves reports whether r comes from a process that can only run because the
// one behind s is dead: it knows the nonce, runs in the same boot and has the
// flock of the same file. A node that has no boot id or no lock file proves
// nothing by both being absent.
func (r RegisterRequest) proves(s Session) bool {
	return r.Resume == s.ID && r.ResumeNonce == s.Nonce && r.TTL == s.TTL &&
		r.BootID != "" && r.BootID == s.BootID &&
		r.LockFile != LockFile{} && r.LockFile == s.LockFile
}

func (f Facts) open(r RegisterRequest) Session {
	return Session{
		ID: r.Session, Node: r.Node, Tenants: r.Tenants, Nonce: r.Nonce, BootID: r.BootID, LockFile: r.LockFile,
		TTL: r.TTL, Registered: f.Now, ExpiresAt: f.Now.Add(r.TTL), SetVersion: 1,
	}
}

func (f Facts) waitFor(s Session, r RegisterRequest) Answer {
	left := min(s.ExpiresAt.Add(f.LockDelay).Sub(f.Now), f.span(s)+f.LockDelay)
	return Answer{
		Code: Wait, Reason: NodeConflict, RetryAfter: max(left, f.pauseLeft(s.TTL, f.LockDelay), 0),
		Detail: fmt.Sprintf("node %s has a session of another process (boot %s, this is boot %s); it must run out first", s.Node, s.BootID, r.BootID),
	}
}

// Beat is one heartbeat: it renews the session row and tells what the sidecar
// has applied.
type Beat struct {
	Session string
	Nonce   string
	Applied SetVersion
}

// Heartbeat renews s for another ttl, whether or not it has run out, unless
// somebody ended it or another process resumed it. It changes nothing else and
// creates nothing (FC-02, FC-03). An Applied ahead of the row is not believed.
// Stores run this rule in one statement; the conformance suite compares them.
func Heartbeat(f Facts, s Session, b Beat) (Session, Answer) {
	switch {
	case s.End != SessionOpen:
		return s, s.ended()
	case s.Nonce != b.Nonce:
		return s, reject(WrongNonce, "another process of node "+s.Node+" resumed session "+s.ID)
	}
	s.ExpiresAt = f.Now.Add(s.TTL)
	if !s.Version(f.Generation).Before(b.Applied) && s.Applied.Before(b.Applied) {
		s.Applied = b.Applied
	}
	return s, Answer{Code: Renewed, Version: s.Version(f.Generation), Remaining: s.TTL}
}

// Close ends a session by its own process, which has closed its gates and cut
// its connections before: everything it held is silent at once. The process
// must never register with the same nonce again: a Close that is still on its
// way would end what it holds by then.
func Close(f Facts, s Session, nonce string) (Change, Answer) {
	switch {
	case s.End != SessionOpen:
		return Change{}, Answer{Code: AlreadyEnded, Detail: string(s.End)}
	case s.Nonce != nonce:
		return Change{}, reject(WrongNonce, "another process of node "+s.Node+" resumed session "+s.ID)
	}
	s.End, s.EndedAt = SessionClosed, f.Now
	return Change{Sessions: []Session{s}}, Answer{Code: Done}
}
