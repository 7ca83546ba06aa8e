package modeltest

import (
	"fmt"
	"slices"

	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
)

// Node is one sidecar. What a restart keeps is Session and LastNonce.
type Node struct {
	Index    int
	Name     string
	LockFile lease.LockFile

	Proc       int // process number; part of the nonce
	Registered bool
	Session    string
	LastNonce  string // that the session had when this process looked
	Applied    lease.SetVersion
	Holds      []Hold
	Commands   int
	Leases     int
}

// Hold is what a node believes of one lease.
type Hold struct {
	Lease    string
	Epoch    epoch.Epoch
	Claimed  bool             // the authority confirmed it as live
	Closed   bool             // never to be used again: released, drained, ended or past
	Deadline boottime.Instant // everything is cut
}

func (h Hold) inUse(now boottime.Instant) bool {
	return h.Claimed && !h.Closed && now.Before(h.Deadline)
}

func newNode(i int, clone bool) Node {
	n := Node{Index: i, Name: fmt.Sprintf("node-%d", i), LockFile: lease.LockFile{Device: 1, Inode: uint64(i) + 1}, Proc: 1}
	if clone {
		n.Name = "node-0"
	}
	return n
}

func (n Node) nonce() string { return fmt.Sprintf("nonce-%d-%d", n.Index, n.Proc) }

func (n Node) command() int { return (n.Index*100+n.Proc)*1000 + n.Commands }

func (n Node) using(now boottime.Instant) bool {
	return slices.ContainsFunc(n.Holds, func(h Hold) bool { return h.inUse(now) })
}

// Restart is kill -9 and a new process in the same boot: the old one's holds
// are silent with it.
func (w World) Restart(i int) World {
	n := w.Nodes[i]
	n.Proc++
	n.Registered, n.Applied, n.Holds = false, lease.SetVersion{}, nil
	return w.withNode(n)
}

// Copy takes over the data directory of node from, as it is now.
func (w World) Copy(from, to int) World {
	n := w.Nodes[to]
	n.Session, n.LastNonce = w.Nodes[from].Session, w.Nodes[from].nonce()
	return w.withNode(n)
}

// Ask sends a request of node i about the hold with that index, where the kind
// needs one; ok is false when there is nothing to ask.
func (w World) Ask(i int, k Kind, hold int) (World, bool) {
	n := w.Nodes[i]
	m := Message{Kind: k, Node: i, Proc: n.Proc, SentAt: w.boot(i), Session: n.Session, Nonce: n.nonce(), Applied: n.Applied}
	if (k == Register) == n.Registered {
		return w, false
	}
	switch k {
	case Register:
		m.ResumeNonce = n.LastNonce
	case Acquire:
		n.Leases++
		m.Lease = fmt.Sprintf("lease-%d-%d-%d", i, n.Proc, n.Leases)
	case Claim, Renew, Release:
		if hold >= len(n.Holds) {
			return w, false
		}
		h := n.Holds[hold]
		if h.Closed && k != Release || k == Claim && h.Claimed {
			return w, false
		}
		m.Lease, m.Epoch = h.Lease, h.Epoch
		if k == Release { // the gate closes first
			n = n.close(h.Lease)
		}
	case Close:
		for _, h := range n.Holds {
			n = n.close(h.Lease)
		}
		n.Commands++ // a process that closed its session is gone (lease.Close)
		m.Command = n.command()
		w = w.withNode(n).send(m)
		return w.Restart(i), true
	case Beat, Fetch:
	}
	if k != Beat && k != Fetch {
		n.Commands++
		m.Command = n.command()
	}
	return w.withNode(n).send(m), true
}

func (n Node) close(leaseID string) Node {
	n.Holds = slices.Clone(n.Holds)
	for i := range n.Holds {
		if n.Holds[i].Lease == leaseID {
			n.Holds[i].Closed = true
		}
	}
	return n
}

// receive takes an answer in (DESIGN 3, Session 5-6).
func (n Node) receive(w World, m Message) Node {
	if m.Proc != n.Proc {
		return n // of a former process
	}
	n = n.expire(w.boot(n.Index))
	if m.Kind == Register {
		return n.registered(m)
	}
	if !n.Registered || m.Session != n.Session {
		return n
	}
	if w.cfg.Off.SentAt {
		m.SentAt = w.boot(n.Index)
	}
	deadline := m.SentAt.Add(m.Remaining - w.cfg.Budget.Margin)
	switch m.Kind {
	case Beat:
		if m.Code == lease.Renewed && (w.cfg.Off.Applied || !n.Applied.Before(m.Version)) {
			n = n.extend("", deadline)
		}
	case Fetch:
		if m.Code == lease.Done && !m.Version.Before(n.Applied) {
			n = n.apply(m, deadline)
		}
	case Acquire:
		n = n.granted(w, m)
	case Claim, Renew:
		n = n.confirmed(w, m, deadline)
	case Release:
		n = n.released(w, m)
	case Close, Register:
	}
	return n
}

// released takes a release's answer: a delta only when it was this release
// that changed the set.
func (n Node) released(w World, m Message) Node {
	if n.Applied.Next(m.Version) && (m.Code == lease.Done || w.cfg.Off.Deltas) {
		n.Applied = m.Version
	}
	return n
}

// expire closes what has passed: Lost is final (DESIGN 4.7).
func (n Node) expire(now boottime.Instant) Node {
	n.Holds = slices.Clone(n.Holds)
	for i, h := range n.Holds {
		if h.Claimed && !now.Before(h.Deadline) {
			n.Holds[i].Closed = true
		}
	}
	return n
}

func (n Node) registered(m Message) Node {
	if n.Registered || (m.Code != lease.Registered && m.Code != lease.Resumed) {
		return n
	}
	n.Registered, n.Session, n.LastNonce = true, m.Session, n.nonce()
	return n
}

// extend moves the deadline of one hold, or of all.
func (n Node) extend(leaseID string, deadline boottime.Instant) Node {
	for i, h := range n.Holds {
		if h.Claimed && (leaseID == "" || h.Lease == leaseID) && h.Deadline.Before(deadline) {
			n.Holds[i].Deadline = deadline
		}
	}
	return n
}

// apply replaces the set. A lease that left it, or drains, is closed for good.
func (n Node) apply(m Message, deadline boottime.Instant) Node {
	before := n.Holds
	n.Holds, n.Applied = nil, m.Version
	for _, e := range m.Set {
		h := Hold{Lease: e.Lease, Epoch: e.Epoch}
		if i := slices.IndexFunc(before, func(b Hold) bool { return b.Lease == e.Lease }); i >= 0 {
			h = before[i]
		}
		h.Claimed = h.Claimed || e.State == lease.Live
		h.Closed = h.Closed || e.State == lease.Draining
		n.Holds = append(n.Holds, h)
	}
	return n.extend("", deadline)
}

// granted takes an acquire's answer: a hint, applied when it is exactly one
// newer than the set.
func (n Node) granted(w World, m Message) Node {
	if m.Code != lease.Acquired || (!w.cfg.Off.Sets && !n.Applied.Next(m.Version)) {
		return n
	}
	if slices.ContainsFunc(n.Holds, func(h Hold) bool { return h.Lease == m.Lease }) {
		return n
	}
	n.Holds = append(n.Holds, Hold{Lease: m.Lease, Epoch: m.Epoch})
	if n.Applied.Before(m.Version) {
		n.Applied = m.Version
	}
	return n
}

func (n Node) confirmed(w World, m Message, deadline boottime.Instant) Node {
	if m.Code != lease.Claimed && m.Code != lease.Renewed {
		return n
	}
	i := slices.IndexFunc(n.Holds, func(h Hold) bool { return h.Lease == m.Lease })
	if w.cfg.Off.Sets {
		if i < 0 {
			n.Holds = append(n.Holds, Hold{Lease: m.Lease, Epoch: m.Epoch})
			i = len(n.Holds) - 1
		}
	} else if i < 0 || n.Applied.Before(m.Version) {
		return n
	}
	if m.Remaining == 0 {
		return n // replayed from what was stored: it proves nothing about now
	}
	n.Holds[i].Claimed = true
	return n.extend(m.Lease, deadline)
}
