package model

import (
	"sync/atomic"
	"time"

	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/gate"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// Hold is the sidecar's machine of one hold with what the keeper knows beside
// it.
type Hold struct {
	M         ownership.Machine
	Asked     string           // the lease id that was chosen for it
	Acked     bool             // the authority said in this process that it is live
	GrantedAt lease.SetVersion // sets older than it do not know the lease yet
	Notice    boottime.Instant // of the last clock event or restart, as the machine keeps it
	Running   bool             // a call that was admitted has not come back
	Releasing bool             // asked to release it
	Cut       bool
}

func newHold(leaseID string, t ownership.Timing) Hold {
	return Hold{Asked: leaseID, M: ownership.New(ownership.Term{}, t)}
}

// restored is the hold in the next process of its node.
func (h Hold) restored(t ownership.Timing, now boottime.Instant) Hold {
	m := ownership.Restore(h.M.Term, t, now)
	next := Hold{M: m, Asked: h.Asked, GrantedAt: h.GrantedAt, Notice: now}
	if h.M.Term.State == ownership.Releasing {
		next = next.step(ownership.Event{Kind: ownership.EvRelease, Now: now})
	}
	return next
}

// step feeds the machine and does what it says: a cut ends what runs, and
// retiring waits for it. Calls are in flight for as long as they may be.
func (h Hold) step(e ownership.Event) Hold {
	var acts []ownership.Action
	h.M, acts = ownership.Step(h.M, e)
	for _, a := range acts {
		if a == ownership.DoCut || a == ownership.DoRetire {
			h.Running = false
		}
		h.Cut = h.Cut || a == ownership.DoCut
	}
	h.Running = h.Running || h.M.Term.State == ownership.Owned
	return h
}

func (h Hold) confirm(sentAt, now boottime.Instant, remaining time.Duration) Hold {
	if !h.Acked {
		return h
	}
	return h.step(ownership.Event{Kind: ownership.EvConfirmed, Now: now, SentAt: sentAt, Remaining: remaining})
}

// judge asks the real gate at an instant of the model.
type judge struct {
	clock.Clock
	now    boottime.Instant
	gate   *gate.Gate
	permit gate.Permit // of a call that was admitted once
}

func newJudge() *judge {
	j := &judge{}
	j.gate = gate.New(j)
	j.publish(ownership.Term{State: ownership.Owned, UncertainAt: 1, Deadline: 1})
	j.permit, _ = j.gate.Admit(ownership.Key{})
	return j
}

// Boot implements clock.Clock, as far as the gate reads it.
func (j *judge) Boot() boottime.Instant { return j.now }

func (j *judge) publish(t ownership.Term) {
	j.gate.Publish(&ownership.View{Holds: map[ownership.Key]ownership.Entry{t.Key: {Term: t, InFlight: &atomic.Int64{}}}})
}

// inUse reports whether the gate admits an effect of h now, or lets a call go
// on that it admitted before.
func (j *judge) inUse(h Hold, now boottime.Instant) bool {
	if h.M.Final() {
		return false
	}
	j.now = now
	j.publish(h.M.Term)
	return (h.Running && j.permit.CheckRunning() == nil) || j.permit.Check() == nil
}
