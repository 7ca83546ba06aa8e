package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

const (
	ttl       = 15 * time.Second
	maxTTL    = time.Minute
	lockDelay = 2500 * time.Millisecond
)

var start = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// bench is one scope in the hands of the rules: the test asks, the bench
// proves every Change and takes it over.
type bench struct {
	t     *testing.T
	facts lease.Facts
	pol   lease.Policy
	c     lease.Case
	audit []lease.Audit
	ended map[string]lease.Lease
}

func setup(t *testing.T) *bench {
	t.Helper()
	s, err := scope.Parse("acme/environment:prod")
	require.NoError(t, err)
	return &bench{
		t:     t,
		facts: lease.Facts{Now: start, Generation: 3, Pause: lease.NoPause(), MaxTTL: maxTTL, LockDelay: lockDelay},
		pol: lease.Policy{
			Requirement: lease.Exclusive, MinTTL: lease.TTLFloor, MaxTTL: maxTTL, LockDelay: lockDelay,
			ClaimTimeout: 10 * time.Second, OnUncleanEnd: lease.ReconcileAfter,
		},
		c:     lease.Case{Scope: lease.Record{Scope: s, State: lease.Open}, Sessions: map[string]lease.Session{}},
		ended: map[string]lease.Lease{},
	}
}

// takes proves a change and takes it over.
func (b *bench) takes(ch lease.Change, a lease.Answer) lease.Answer {
	b.t.Helper()
	require.NoError(b.t, lease.Validate(b.c, ch))
	b.c = b.c.Apply(ch)
	b.audit = append(b.audit, ch.Audit...)
	for _, l := range ch.Leases {
		if l.State == lease.Ended {
			b.ended[l.ID] = l
		}
	}
	return a
}

func (b *bench) passes(d time.Duration) { b.facts.Now = b.facts.Now.Add(d) }

func registration(node, session, nonce string) lease.RegisterRequest {
	return lease.RegisterRequest{
		Session: session, Node: node, Tenants: []string{"acme"}, Nonce: nonce, BootID: "boot-" + node,
		LockFile: lease.LockFile{Device: 1, Inode: 7}, TTL: ttl,
	}
}

func (b *bench) register(r lease.RegisterRequest) lease.Answer {
	b.t.Helper()
	var open *lease.Session
	for _, s := range b.c.Sessions {
		if s.Node == r.Node && s.End == lease.SessionOpen {
			open = &s
		}
	}
	return b.takes(lease.Register(b.facts, open, r))
}

// joins registers a node whose session, nonce and node share one name.
func (b *bench) joins(names ...string) {
	b.t.Helper()
	for _, n := range names {
		require.Equal(b.t, lease.Registered, b.register(registration(n, n, n)).Code)
	}
}

func (b *bench) acquire(session, id string) lease.Answer {
	b.t.Helper()
	return b.takes(lease.Acquire(b.facts, b.pol, b.c, lease.AcquireRequest{
		Session: session, Nonce: b.c.Sessions[session].Nonce, LeaseID: id,
		Holder: lease.Holder{Kind: lease.HolderController, ID: "deployer-" + session}, Purpose: lease.Work,
	}))
}

func (b *bench) ref(session, id string, e epoch.Epoch) lease.Ref {
	return lease.Ref{Session: session, Nonce: b.c.Sessions[session].Nonce, Lease: id, Epoch: e}
}

func (b *bench) claim(session, id string, e epoch.Epoch) lease.Answer {
	b.t.Helper()
	return b.takes(lease.Claim(b.facts, b.pol, b.c, b.ref(session, id, e)))
}

// owns acquires and claims.
func (b *bench) owns(session, id string) epoch.Epoch {
	b.t.Helper()
	a := b.acquire(session, id)
	require.Equal(b.t, lease.Acquired, a.Code, a.Detail)
	require.Equal(b.t, lease.Claimed, b.claim(session, id, a.Epoch).Code)
	return a.Epoch
}

func (b *bench) release(session, id string, e epoch.Epoch, why lease.EndReason, unknown int) lease.Answer {
	b.t.Helper()
	return b.takes(lease.Release(b.facts, b.pol, b.c, lease.ReleaseRequest{
		Ref: b.ref(session, id, e), Why: why, Quiescence: lease.Quiescence{Unknown: unknown},
	}))
}

// beats sends a heartbeat that reports the present set as applied, or an
// earlier one.
func (b *bench) beats(session string, behind uint64) lease.Answer {
	b.t.Helper()
	s := b.c.Sessions[session]
	v := s.Version(b.facts.Generation)
	v.Version -= behind
	next, a := lease.Heartbeat(b.facts, s, lease.Beat{Session: session, Nonce: s.Nonce, Applied: v})
	return b.takes(lease.Change{Sessions: []lease.Session{next}}, a)
}

func (b *bench) settle() {
	b.t.Helper()
	b.takes(b.facts.Settle(b.pol, b.c), lease.Answer{})
}

func (b *bench) force(e epoch.Epoch, accept bool) lease.Answer {
	b.t.Helper()
	return b.takes(lease.ForceRelease(b.facts, b.pol, b.c, lease.ForceReleaseRequest{
		Epoch: e, Actor: "person:eve", Reason: "stuck since noon", AcceptUnreconciled: accept,
	}))
}

// steps moves the store's clock and begins the time pause that this causes.
func (b *bench) steps(d time.Duration) {
	b.facts.Now = b.facts.Now.Add(d)
	b.facts.Pause = lease.Pause{}
}

// pauses lets time pass during a pause.
func (b *bench) pauses(d time.Duration) {
	b.passes(d)
	b.facts.Pause.Elapsed += d
}
