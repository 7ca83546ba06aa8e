package model

import (
	"fmt"
	"slices"

	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// Node is one sidecar. What a restart keeps is Session, LastNonce and the
// holds that were granted.
type Node struct {
	Index    int
	Name     string
	LockFile lease.LockFile

	Boot       int // of the machine
	Proc       int // process number; part of the nonce
	Registered bool
	Session    string
	LastNonce  string // that the session had when this process looked
	Tracker    ownership.Tracker
	Holds      []Hold
	Commands   int
	Leases     int
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

// Restart is kill -9 and a new process in the same boot: what ran under the
// holds is dead with the old one, the holds come back as Uncertain.
func (w World) Restart(i int) World {
	n := w.Nodes[i]
	n.Proc++
	n.Registered, n.Tracker = false, ownership.Tracker{}
	n.Holds = slices.DeleteFunc(slices.Clone(n.Holds), func(h Hold) bool { return h.M.Term.Lease == "" || h.M.Final() })
	for j, h := range n.Holds {
		n.Holds[j] = h.restored(w.timing(), w.boot(i))
	}
	return w.withNode(n)
}

// Reboot ends the machine: nothing is left of its holds, and its next process
// proves nothing about the last.
func (w World) Reboot(i int) World {
	w = w.Restart(i)
	n := w.Nodes[i]
	n.Boot, n.Holds = n.Boot+1, nil
	return w.withNode(n)
}

// Sleep is a clock event: everything confirmed before it is distrusted.
func (w World) Sleep(i int) World {
	return w.withNode(w.Nodes[i].each(func(h Hold) Hold {
		h.Notice = w.boot(i)
		return h.step(ownership.Event{Kind: ownership.EvClock, Now: w.boot(i)})
	}))
}

// Copy takes over the data directory of node from, with its holds, as it is
// now.
func (w World) Copy(from, to int) World {
	n := w.Nodes[to]
	n.Session, n.LastNonce, n.Holds = w.Nodes[from].Session, w.Nodes[from].nonce(), nil
	for _, h := range w.Nodes[from].Holds {
		if h.M.Term.Lease != "" && !h.M.Final() {
			n.Holds = append(n.Holds, h.restored(w.timing(), w.boot(to)))
		}
	}
	return w.withNode(n)
}

// Ask sends a request of node i about the hold with that index, where the kind
// needs one; ok is false when there is nothing to ask.
func (w World) Ask(i int, k Kind, hold int) (World, bool) {
	n, now := w.Nodes[i], w.boot(i)
	if (k == Register) == n.Registered {
		return w, false
	}
	m := Message{Kind: k, Node: i, Proc: n.Proc, SentAt: now, Session: n.Session, Nonce: n.nonce(), Applied: n.Tracker.Applied}
	switch k {
	case Register:
		m.ResumeNonce, m.Boot = n.LastNonce, n.Boot
	case Acquire:
		n.Leases++
		m.Lease = fmt.Sprintf("lease-%d-%d-%d", i, n.Proc, n.Leases)
		n.Holds = append(slices.Clone(n.Holds), newHold(m.Lease, w.timing()))
	case Claim, Renew, Release:
		var ok bool
		if n, m, ok = n.about(m, hold, now); !ok {
			return w, false
		}
	case Close: // a process that closed its session is gone (lease.Close)
		n.Commands++
		m.Command = n.command()
		n.Holds = nil
		return w.withNode(n).send(m).Restart(i), true
	case Beat: // the loop that beats looks at the time first
		n = n.each(func(h Hold) Hold { return h.step(ownership.Event{Kind: ownership.EvTick, Now: now}) })
	case Fetch:
	}
	if k != Beat && k != Fetch {
		n.Commands++
		m.Command = n.command()
	}
	return w.withNode(n).send(m), true
}

// about names a hold in a request; a release closes its gate first.
func (n Node) about(m Message, hold int, now boottime.Instant) (Node, Message, bool) {
	if hold >= len(n.Holds) || n.Holds[hold].M.Term.Lease == "" {
		return n, m, false
	}
	h := n.Holds[hold]
	t := h.M.Term
	m.Lease, m.Epoch = t.Lease, t.Epoch
	switch m.Kind {
	case Claim:
		return n, m, t.State == ownership.Acquiring
	case Release:
		h.Releasing = true
		n.Holds = slices.Clone(n.Holds)
		n.Holds[hold] = h.step(ownership.Event{Kind: ownership.EvRelease, Now: now})
	}
	return n, m, m.Kind == Release || !h.M.Final()
}

// each steps every hold and leaves out those that have come to their end.
func (n Node) each(f func(Hold) Hold) Node {
	before := n.Holds
	n.Holds = make([]Hold, 0, len(before))
	for _, h := range before {
		if h = f(h); h.M.Term.State != ownership.Unowned {
			n.Holds = append(n.Holds, h)
		}
	}
	return n
}

// on steps the holds of one lease.
func (n Node) on(leaseID string, f func(Hold) Hold) Node {
	return n.each(func(h Hold) Hold {
		if h.Asked != leaseID {
			return h
		}
		return f(h)
	})
}
