package sidecartest

import (
	"context"
	"sync"
	"time"

	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/sidecar/keeper"
)

// Authority is a scripted one: it grants what nobody else has, with epochs
// that grow, and lets the test take things away.
type Authority struct {
	ttl time.Duration

	mu       sync.Mutex
	epoch    epoch.Epoch
	version  uint64
	silent   bool
	others   map[string]*lease.Summary
	refusals map[string]lease.Answer
	leases   map[string]lease.Lease
	ended    []keeper.Ended
	blocked  map[string]*keeper.Evidence
	releases chan keeper.ReleaseCommand
	nudge    func(lease.SetVersion)
}

var _ keeper.Link = (*Authority)(nil)

func newAuthority(ttl time.Duration) *Authority {
	return &Authority{
		ttl: ttl, version: 1, others: map[string]*lease.Summary{}, refusals: map[string]lease.Answer{},
		leases: map[string]lease.Lease{}, blocked: map[string]*keeper.Evidence{}, releases: make(chan keeper.ReleaseCommand, 64),
	}
}

// Releases are the releases it got, in order.
func (a *Authority) Releases() <-chan keeper.ReleaseCommand { return a.releases }

// SetSilent makes it answer nothing, or answer again.
func (a *Authority) SetSilent(silent bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.silent = silent
}

// Other is somebody else's lease of a scope, with the next epoch.
func (a *Authority) Other(s scope.Scope) *lease.Summary {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.otherLocked(s)
}

func (a *Authority) otherLocked(s scope.Scope) *lease.Summary {
	a.epoch++
	o := &lease.Summary{
		Scope: s, Lease: "01JF8Z6M0000000000000OTHER", Holder: lease.Holder{Kind: lease.HolderDeployment, ID: "web-42"}, Node: "node-b",
		Epoch: a.epoch, State: lease.Live, Since: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC), Alive: true, ExpiresIn: a.ttl,
	}
	a.others[s.String()] = o
	return o
}

// Leave frees a scope that somebody else had.
func (a *Authority) Leave(s scope.Scope) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.others, s.String())
}

// Refuse answers every request for a scope like this.
func (a *Authority) Refuse(s scope.Scope, answer lease.Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refusals[s.String()] = answer
}

// Take ends the sidecar's lease of a scope; with a successor when one is due.
func (a *Authority) Take(s scope.Scope, why lease.EndReason, by, detail string, succeeded bool) {
	a.mu.Lock()
	a.version++
	for id, l := range a.leases {
		if l.Scope != s {
			continue
		}
		delete(a.leases, id)
		l.State, l.EndReason, l.EndedBy, l.EndDetail = lease.Ended, why, by, detail
		e := keeper.Ended{Lease: l}
		if succeeded {
			e.Successor = a.otherLocked(s)
		}
		a.ended = append(a.ended, e)
	}
	v := a.versionLocked()
	a.mu.Unlock()
	a.nudge(v)
}

func (a *Authority) versionLocked() lease.SetVersion {
	return lease.SetVersion{Generation: 1, Version: a.version}
}

// Heartbeat implements keeper.Link.
func (a *Authority) Heartbeat(context.Context, keeper.Beat) (keeper.BeatAnswer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silent {
		return keeper.BeatAnswer{}, keeper.ErrUnreachable
	}
	return keeper.BeatAnswer{Taken: true, Answer: lease.Answer{Code: lease.Renewed, Version: a.versionLocked(), Remaining: a.ttl}}, nil
}

// FetchSet implements keeper.Link.
func (a *Authority) FetchSet(context.Context, string, string, []string) (keeper.Set, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silent {
		return keeper.Set{}, keeper.ErrUnreachable
	}
	set := keeper.Set{Version: a.versionLocked(), Remaining: a.ttl, Ended: a.ended}
	for _, l := range a.leases {
		set.Leases = append(set.Leases, keeper.SetLease{Lease: l, OwnRemaining: -1})
	}
	return set, nil
}

// Do implements keeper.Link.
func (a *Authority) Do(_ context.Context, c keeper.Command) (lease.Answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.silent:
		return lease.Answer{}, keeper.ErrUnreachable
	case c.Acquire != nil:
		return a.acquireLocked(c), nil
	case c.Claim != nil:
		l := a.leases[c.Claim.Lease]
		l.State = lease.Live
		a.leases[l.ID] = l
		return lease.Answer{Code: lease.Claimed, Lease: &l, Version: a.versionLocked(), Epoch: l.Epoch, Remaining: a.ttl}, nil
	case c.Resolve != nil:
		return a.resolveLocked(c.Resolve), nil
	}
	delete(a.leases, c.Release.Lease)
	a.version++
	a.releases <- *c.Release
	return lease.Answer{Code: lease.Done, Version: a.versionLocked()}, nil
}

func (a *Authority) acquireLocked(c keeper.Command) lease.Answer {
	name := c.Acquire.Scope.String()
	if answer, ok := a.refusals[name]; ok {
		answer.Version = a.versionLocked()
		return answer
	}
	if o := a.others[name]; o != nil {
		return lease.Answer{Code: lease.Busy, Holder: o, Version: a.versionLocked(), RetryAfter: 10 * time.Millisecond}
	}
	a.epoch++
	a.version++
	l := lease.Lease{
		ID: c.Acquire.Lease, Scope: c.Acquire.Scope, Exclusive: true, Slots: []int{0}, Holder: c.Acquire.Holder,
		Session: c.Session, Node: "node-a", Epoch: a.epoch, State: lease.Granted,
	}
	a.leases[l.ID] = l
	return lease.Answer{Code: lease.Acquired, Lease: &l, Version: a.versionLocked(), Epoch: l.Epoch, Remaining: a.ttl}
}

// Confirm implements keeper.Link.
func (a *Authority) Confirm(_ context.Context, c keeper.Confirmation) (lease.Answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silent {
		return lease.Answer{}, keeper.ErrUnreachable
	}
	if _, held := a.leases[c.Lease.Lease]; !held {
		return lease.Answer{Code: lease.Lost, Reason: lease.NoLease}, nil
	}
	return lease.Answer{Code: lease.Claimed}, nil
}

// Reregister implements keeper.Link.
func (a *Authority) Reregister() {}
