package model

import (
	"fmt"
	"slices"
	"time"

	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// Authority is the records of one scope, the clock that stamps them, and the
// answers kept for commands. Case is never changed in place.
type Authority struct {
	Case       lease.Case
	Generation epoch.Generation
	Step       time.Duration // what the store's clock was stepped in all
	Unnoticed  time.Duration // of it, what began no time pause
	PausedAt   time.Duration // true time of the last pause; the first is at the start
	Whole      bool
	Issued     epoch.Epoch // the highest ever
	Stored     []Stored
	Opened     int  // sessions
	Cut        bool // history was cut
	Dirty      bool // a lease ended without its holder's word, and nobody has looked since
}

// Stored is the answer kept for a command.
type Stored struct {
	Command int
	Answer  Message
}

func (a Authority) has(leaseID string) bool {
	return slices.ContainsFunc(a.Case.Leases, func(l lease.Lease) bool { return l.ID == leaseID })
}

var origin = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

// longAgo lets a world start without a time pause.
const longAgo = -time.Hour

func newAuthority() Authority {
	s, err := scope.New("acme", scope.Environment, "prod")
	if err != nil {
		panic(err) // a constant
	}
	return Authority{
		Case:       lease.Case{Scope: lease.Record{Scope: s, State: lease.Open}, Sessions: map[string]lease.Session{}},
		Generation: 1, PausedAt: longAgo,
	}
}

func (w World) facts() lease.Facts {
	f := lease.Facts{
		Now: origin.Add(w.Now + w.Auth.Step), Generation: w.Auth.Generation, MaxTTL: w.cfg.MaxTTL, LockDelay: w.cfg.Budget.LockDelay,
		Pause: lease.Pause{Elapsed: w.Now - w.Auth.PausedAt, Whole: w.Auth.Whole},
	}
	if w.cfg.Off.Pause {
		f.Pause = lease.NoPause()
	}
	if w.cfg.Off.LockDelay {
		f.LockDelay = 0
	}
	return f
}

func (w World) policy() lease.Policy {
	p := w.cfg.Policy
	if w.cfg.Off.LockDelay {
		p.LockDelay = 0
	}
	if w.cfg.Off.Unclean {
		p.OnUncleanEnd = lease.FreeAfter
	}
	return p
}

// StepClock moves the store's clock. Steps that add up to less than a quarter
// of the lock delay begin no pause (DESIGN 4.2).
func (w World) StepClock(d time.Duration) World {
	w.Auth.Step += d
	w.Auth.Unnoticed += d
	if w.Auth.Unnoticed.Abs() > w.cfg.Budget.LockDelay/4 {
		w.Auth.Unnoticed, w.Auth.PausedAt = 0, w.Now
	}
	return w
}

// Raise raises the generation, ending nothing, as a start does.
func (w World) Raise() World {
	w.Auth.Generation++
	return w
}

// Restore puts the authority back to what it was in an earlier world, as a
// restored dump does, and does what it must do when it notices: raise the
// generation, take a whole pause, drain what is left, close what wants
// reconciliation (DESIGN 5.8).
func (w World) Restore(earlier World) (World, error) {
	now := w.Auth
	w.Auth = earlier.Auth
	w.Auth.Issued, w.Auth.Generation, w.Auth.Opened = now.Issued, now.Generation+1, now.Opened
	w.Auth.PausedAt, w.Auth.Whole, w.Auth.Cut = w.Now, !w.cfg.Off.Pause, true
	ch := w.facts().Forget(w.policy(), w.Auth.Case, "restored")
	w.Auth.Dirty = w.Auth.Dirty || ch.Scope != nil // somebody whom no record names may have acted
	return w.write(ch, "")
}

// Sweep settles the scope.
func (w World) Sweep() (World, error) {
	return w.write(w.facts().Settle(w.policy(), w.Auth.Case), "")
}

// Force force-releases the present lease.
func (w World) Force(accept bool) (World, error) {
	if len(w.Auth.Case.Leases) == 0 {
		return w, nil
	}
	p := w.policy()
	ch, _ := lease.ForceRelease(w.facts(), p, w.Auth.Case, lease.ForceReleaseRequest{
		Epoch: w.Auth.Case.Leases[0].Epoch, Actor: "eve", Reason: "stuck", AcceptUnreconciled: accept,
	})
	if w.cfg.Off.Drain {
		for i, l := range ch.Leases {
			if l.State == lease.Draining {
				ch.Leases[i].State = lease.Ended
			}
		}
	}
	w, err := w.write(ch, "")
	if accept {
		w = w.accepted()
	}
	return w, err
}

// Reopen opens a scope that an unclean end closed.
func (w World) Reopen() (World, error) {
	ch, _ := lease.ForceRelease(w.facts(), w.policy(), w.Auth.Case, lease.ForceReleaseRequest{
		Epoch: w.Auth.Case.Scope.Epoch, Actor: "eve", Reason: "looked", AcceptUnreconciled: true,
	})
	w, err := w.write(ch, "")
	return w.accepted(), err
}

// accepted: a person took over what was left behind, if that opened the scope.
func (w World) accepted() World {
	if w.Auth.Case.Scope.State == lease.Open && len(w.Auth.Case.Leases) == 0 {
		w.Auth.Dirty = false
	}
	return w
}

// write proves and takes over a change. granted is the lease that it grants.
func (w World) write(ch lease.Change, granted string) (World, error) {
	if !w.cfg.Off.Written { // with it off, two leases are the expected damage
		if err := lease.Validate(w.Auth.Case, ch); err != nil {
			return w, err
		}
	}
	w.Auth.Dirty = w.Auth.Dirty || w.unclean(ch)
	w.Auth.Case = w.Auth.Case.Apply(ch)
	if granted != "" {
		if w.Auth.Dirty && w.cfg.Policy.OnUncleanEnd != lease.FreeAfter {
			return w, fmt.Errorf("granted %s at %s although nobody has looked at what was left behind (I6)", granted, w.Now)
		}
		if users := w.Users(); len(users) > 0 {
			return w, fmt.Errorf("granted %s at %s while nodes %v still use the scope", granted, w.Now, users)
		}
		if w.Auth.Case.Scope.Epoch <= w.Auth.Issued {
			return w, fmt.Errorf("epoch %d issued after %d", w.Auth.Case.Scope.Epoch, w.Auth.Issued)
		}
	}
	w.Auth.Issued = max(w.Auth.Issued, w.Auth.Case.Scope.Epoch)
	return w, nil
}

// unclean reports by what was seen, not by what the records say, that a change
// ends a lease under which something may have run: not by a release, which is
// the holder's receipt, and not by a person who accepted it.
func (w World) unclean(ch lease.Change) bool {
	return slices.ContainsFunc(ch.Leases, func(l lease.Lease) bool {
		i := slices.IndexFunc(w.Auth.Case.Leases, func(was lease.Lease) bool { return was.ID == l.ID })
		return l.State == lease.Ended && i >= 0 && w.Auth.Case.Leases[i].State != lease.Granted &&
			l.EndReason != lease.ForcedUnreconciled && l.EndReason != lease.Released && !l.Accounted
	})
}

// decide runs the rule for a request and sends the answer.
func (w World) decide(m Message) (World, error) {
	if i := slices.IndexFunc(w.Auth.Stored, func(s Stored) bool { return s.Command == m.Command }); m.Command != 0 && i >= 0 {
		return w.send(w.Auth.Stored[i].Answer), nil
	}
	ch, a := w.rule(m)
	granted := ""
	if a.Code == lease.Acquired {
		granted = m.Lease
	}
	w, err := w.write(ch, granted)
	if err != nil {
		return w, err
	}
	answer := m
	answer.Answer, answer.Code, answer.Version, answer.Remaining = true, a.Code, a.Version, a.Remaining
	if a.Session != nil {
		answer.Session = a.Session.ID
		w.Auth.Opened++
	}
	if a.Lease != nil {
		answer.Epoch = a.Lease.Epoch
	}
	if m.Kind == Fetch {
		answer = w.set(answer)
	}
	if m.Command != 0 {
		kept := answer
		kept.Remaining = 0
		w.Auth.Stored = append(slices.Clone(w.Auth.Stored), Stored{Command: m.Command, Answer: kept})
	}
	return w.send(answer), nil
}

func (w World) rule(m Message) (lease.Change, lease.Answer) {
	f, p, c := w.facts(), w.policy(), w.Auth.Case
	ref := lease.Ref{Session: m.Session, Nonce: m.Nonce, Lease: m.Lease, Epoch: m.Epoch}
	switch m.Kind {
	case Register:
		return w.register(f, c, m)
	case Beat:
		s, a := lease.Heartbeat(f, c.Sessions[m.Session], lease.Beat{Session: m.Session, Nonce: m.Nonce, Applied: m.Applied})
		if a.Code != lease.Renewed {
			return lease.Change{}, a
		}
		return lease.Change{Sessions: []lease.Session{s}}, a
	case Acquire:
		if w.cfg.Off.Written {
			c = w.blind(f, p, c)
		}
		return lease.Acquire(f, p, c, lease.AcquireRequest{
			Session: m.Session, Nonce: m.Nonce, LeaseID: m.Lease, Holder: lease.Holder{Kind: lease.HolderRun, ID: m.Lease}, Purpose: lease.Work,
		})
	case Claim:
		return lease.Claim(f, p, c, ref)
	case Renew:
		return lease.Renew(f, p, c, ref, p.MaxHold)
	case Release:
		return lease.Release(f, p, c, lease.ReleaseRequest{Ref: ref, Why: lease.Released})
	case Close:
		return lease.Close(f, c.Sessions[m.Session], m.Nonce)
	case Fetch:
	}
	return lease.Change{}, lease.Answer{}
}

func (w World) register(f lease.Facts, c lease.Case, m Message) (lease.Change, lease.Answer) {
	n := w.Nodes[m.Node]
	r := lease.RegisterRequest{
		Session: fmt.Sprintf("session-%d-%d", m.Node, w.Auth.Opened), Node: n.Name, Nonce: m.Nonce,
		BootID: fmt.Sprintf("boot-%d", m.Boot), LockFile: n.LockFile, TTL: w.cfg.Budget.TTL, Resume: m.Session, ResumeNonce: m.ResumeNonce,
	}
	if w.cfg.Off.LockFile {
		r.LockFile = w.Nodes[0].LockFile
	}
	for _, s := range c.Sessions {
		if s.Node == n.Name && s.End == lease.SessionOpen {
			return lease.Register(f, &s, r)
		}
	}
	return lease.Register(f, nil, r)
}

// blind hides what has expired from a decision, without ending it.
func (w World) blind(f lease.Facts, p lease.Policy, c lease.Case) lease.Case {
	ended := map[string]bool{}
	for _, l := range f.Settle(p, c).Leases {
		ended[l.ID] = l.State == lease.Ended
	}
	c.Leases = slices.DeleteFunc(slices.Clone(c.Leases), func(l lease.Lease) bool { return ended[l.ID] })
	return c
}

// set answers a fetch, as authority/coordinator does.
func (w World) set(m Message) Message {
	s, ok := w.Auth.Case.Sessions[m.Session]
	if !ok || s.End != lease.SessionOpen || s.Nonce != m.Nonce {
		m.Code = lease.Rejected
		return m
	}
	m.Code, m.Version, m.Remaining = lease.Done, s.Version(w.Auth.Generation), w.facts().Remaining(s)
	for _, l := range w.Auth.Case.Leases {
		if l.Session == s.ID {
			m.Set = append(m.Set, Entry{Lease: l.ID, Epoch: l.Epoch, State: l.State})
		}
	}
	return m
}
