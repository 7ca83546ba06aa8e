package model

import (
	"slices"

	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// receive takes an answer in, as the keeper does (DESIGN 3, Session 5-6). No
// timer runs before it: the machines themselves must refuse what comes late.
func (n Node) receive(w World, m Message) Node {
	if m.Proc != n.Proc {
		return n // of a former process
	}
	now := w.boot(n.Index)
	if m.Kind == Register {
		return n.registered(m, now)
	}
	if !n.Registered || m.Session != n.Session {
		return n
	}
	if w.cfg.Off.SentAt {
		m.SentAt = now
	}
	switch m.Kind {
	case Beat:
		if m.Code == lease.Renewed && (w.cfg.Off.Applied || n.Tracker.Extends(m.Version)) {
			n = n.each(func(h Hold) Hold { return h.confirm(m.SentAt, now, m.Remaining) })
		}
	case Fetch:
		if m.Code == lease.Done && !m.Version.Before(n.Tracker.Applied) {
			n = n.apply(w, m, now)
		}
	case Acquire:
		n = n.acquired(w, m, now)
	case Claim, Renew:
		n = n.claimed(m, now)
	case Release:
		n = n.hint(w, m).on(m.Lease, func(h Hold) Hold {
			return h.step(ownership.Event{Kind: ownership.EvReleased, Now: now})
		})
	case Close, Register:
	}
	return n
}

// registered: a new session has none of the old one's leases.
func (n Node) registered(m Message, now boottime.Instant) Node {
	if n.Registered || (m.Code != lease.Registered && m.Code != lease.Resumed) {
		return n
	}
	n.Registered, n.Session, n.LastNonce = true, m.Session, n.nonce()
	if m.Code == lease.Registered {
		n.Holds = nil // lost and orphaned
	}
	return n
}

// hint follows an answer that names a version: only what changed the set by
// itself is a delta (FC-90).
func (n Node) hint(w World, m Message) Node {
	changed := m.Code == lease.Acquired || m.Code == lease.Done || w.cfg.Off.Deltas
	if changed && n.Tracker.Judge(m.Version) == ownership.Delta {
		n.Tracker = n.Tracker.Apply(m.Version)
	}
	return n
}

// apply makes the holds agree with a set, and only then counts it as applied.
func (n Node) apply(w World, m Message, now boottime.Instant) Node {
	n = n.each(func(h Hold) Hold { return h.inSet(w, m, now) })
	n.Tracker = n.Tracker.Apply(m.Version)
	return n.each(func(h Hold) Hold { return h.confirm(m.SentAt, now, m.Remaining) })
}

// inSet compares one hold with a set. One that was taken before the grant and
// comes after it does not know the lease yet: it proves nothing.
func (h Hold) inSet(w World, m Message, now boottime.Instant) Hold {
	i := slices.IndexFunc(m.Set, func(e Entry) bool { return e.Lease == h.Asked })
	switch {
	case i < 0 && (h.M.Term.Lease == "" || m.Version.Before(h.GrantedAt)):
		return h
	case i < 0 || m.Set[i].State == lease.Draining:
		if w.cfg.Off.Sets {
			return h
		}
		return h.step(ownership.Event{Kind: ownership.EvDropped, Now: now, Reason: ownership.Revoked})
	}
	h.Acked = h.Acked || m.Set[i].State == lease.Live
	return h.step(ownership.Event{Kind: ownership.EvGranted, Now: now, Lease: m.Set[i].Lease, Epoch: m.Set[i].Epoch})
}

func (n Node) acquired(w World, m Message, now boottime.Instant) Node {
	if m.Code != lease.Acquired {
		return n.on(m.Lease, func(h Hold) Hold {
			return h.step(ownership.Event{Kind: ownership.EvRefused, Now: now, Reason: ownership.Refused})
		})
	}
	return n.hint(w, m).on(m.Lease, func(h Hold) Hold {
		if h.M.Final() || h.M.Term.State == ownership.Releasing {
			return h
		}
		h.GrantedAt = m.Version
		return h.step(ownership.Event{Kind: ownership.EvGranted, Now: now, Lease: m.Lease, Epoch: m.Epoch})
	})
}

func (n Node) claimed(m Message, now boottime.Instant) Node {
	return n.on(m.Lease, func(h Hold) Hold {
		switch m.Code {
		case lease.Claimed:
			h.Acked = true
			return h.confirm(m.SentAt, now, m.Remaining)
		case lease.Lost:
			return h.step(ownership.Event{Kind: ownership.EvDropped, Now: now, Reason: ownership.Expired})
		}
		return h
	})
}
