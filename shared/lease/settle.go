package lease

import "time"

// Settle ends every lease of the scope that is over: its session went silent,
// it was never claimed, it has drained; and drains what was held for longer
// than the policy allows. It is what the sweeper asks for and what every other
// rule does first, so that an expired lease blocks nobody even when the
// sweeper is dead (FC-08).
func (f Facts) Settle(p Policy, c Case) Change {
	var ch Change
	for _, l := range c.Leases {
		now := c.Apply(ch)
		ch = ch.merge(f.settleOne(p, now, l, now.Sessions[l.Session]))
	}
	return ch
}

func (f Facts) settleOne(p Policy, c Case, l Lease, s Session) Change {
	if l.byPerson() {
		return f.settlePerson(p, c, l)
	}
	switch l.State {
	case Granted:
		if f.silent(s, f.delay(p)) || (f.timeDecides(s.TTL, 0) && !f.pending(l.ClaimBy, p.ClaimTimeout+f.LockDelay)) {
			return f.end(p, c, l, s, Unclaimed, ending{by: Authority, detail: "never claimed", clean: true})
		}
	case Live:
		if s.End == SessionRevoked {
			return f.revoked(p, c, l, s)
		}
		if f.silent(s, f.delay(p)) {
			return f.end(p, c, l, s, Expired, ending{by: Authority, detail: silence(s)})
		}
		if f.overstayed(l, s) {
			return f.drain(l, s, MaxHold, Authority, "held longer than the policy allows")
		}
	case Draining:
		if f.drained(p, l, s) {
			return f.end(p, c, l, s, l.EndReason, ending{by: l.EndedBy, detail: l.EndDetail, clean: l.EndReason == ForcedUnreconciled})
		}
	case Ended:
	}
	return Change{}
}

// silence says for people why a session counts as silent.
func silence(s Session) string {
	switch s.End {
	case SessionClosed:
		return "its session was closed without releasing it"
	case SessionReplaced:
		return "its session was replaced by another process of the node"
	case SessionOpen, SessionRevoked:
	}
	return "no heartbeat of its session for its ttl " + s.TTL.String() + " and the lock delay"
}

// overstayed reports whether the lease's own limit has passed. A limit has no
// longest span, so a clock stepped back only delays it; that is safe.
func (f Facts) overstayed(l Lease, s Session) bool {
	return !l.MaxUntil.IsZero() && f.timeDecides(s.TTL, 0) && !l.MaxUntil.After(f.Now)
}

// drained reports whether a lease that was ended early can have no effect any
// more: (b) its session applied a set at least that new, or (c) the time that
// it trusted has passed (DESIGN 3, Session 7; FC-90).
func (f Facts) drained(p Policy, l Lease, s Session) bool {
	if s.End == SessionClosed || !s.Applied.Before(l.DrainVersion) {
		return true
	}
	wait := f.delay(p)
	return f.timeDecides(s.TTL, wait) && !f.pending(l.DrainUntil.Add(wait), f.span(s)+wait)
}

// ending carries how a lease ends.
type ending struct {
	by, detail string
	unknown    int
	accounted  bool // its node said what it leaves
	clean      bool // quiescent: nothing can be running or unknown under it
}

// end makes the tombstone, raises the session's set version, and closes the
// scope where an unclean end demands it.
func (f Facts) end(p Policy, c Case, l Lease, s Session, why EndReason, how ending) Change {
	l.State, l.EndReason, l.EndedAt = Ended, why, f.Now
	l.EndedBy, l.EndDetail, l.Unknown, l.Accounted = how.by, how.detail, how.unknown, how.accounted
	l.Unsettled = !how.clean && p.OnUncleanEnd != FreeAfter
	ch := Change{Leases: []Lease{l}}
	if s.ID != "" {
		s.SetVersion++
		ch.Sessions = []Session{s}
	}
	if l.Unsettled && c.Scope.State == Open {
		rec := c.Scope
		rec.State = Blocked
		rec.Reason = "lease " + l.ID + " of " + string(l.Holder.Kind) + " " + l.Holder.ID + " ended: " + string(why)
		ch.Scope = &rec
	}
	ch.Audit = []Audit{f.audit(how.by, "lease-"+string(why), l, how.detail)}
	return ch
}

// drain ends l early: it keeps counting until its holder is provably silent.
func (f Facts) drain(l Lease, s Session, why EndReason, by, detail string) Change {
	ch := Change{}
	if s.ID != "" {
		s.SetVersion++
		ch.Sessions = []Session{s}
	}
	l.State = Draining
	l.DrainUntil, l.DrainVersion = s.ExpiresAt, s.Version(f.Generation)
	l.EndReason, l.EndedBy, l.EndDetail = why, by, detail
	ch.Leases = []Lease{l}
	ch.Audit = []Audit{f.audit(by, "lease-draining", l, joinDetail(string(why), detail))}
	return ch
}

// stamp is the time of an audit line, as exact as every store keeps it.
func (f Facts) stamp() time.Time { return f.Now.Truncate(time.Microsecond) }

func (f Facts) audit(actor, action string, l Lease, reason string) Audit {
	return Audit{
		At: f.stamp(), Actor: actor, Action: action, Scope: l.Scope.String(),
		Lease: l.ID, Node: l.Node, Epoch: l.Epoch, Reason: reason,
	}
}
