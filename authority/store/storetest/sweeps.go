package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

func sweepCases() []Case {
	return []Case{
		{"due/lists what Settle has something to do for, and only that", dueLists},
		{"due/FC09 ten thousand leases of a dead node are due by one row", dueOfDeadNode},
		{"prune/keeps what is young and what is live", pruneKeeps},
	}
}

func due(t testing.TB, b *Bench) []scope.Scope {
	t.Helper()
	out, err := b.Store.Due(t.Context(), time.Second, 20_000)
	require.NoError(t, err)
	return out
}

func dueLists(t *testing.T, b *Bench) {
	s := b.open(t, "n1", MaxTTL)
	live := b.hold(t, named(t, "live"), s)
	unclaimed, err := b.acquire(t.Context(), b.Store, named(t, "unclaimed"), s)
	require.NoError(t, err)
	drained, limited := b.hold(t, named(t, "drained"), s), b.hold(t, named(t, "limited"), s)
	require.Empty(t, due(t, b))

	past := live.AcquiredAt.Add(-time.Hour)
	late := *unclaimed.Lease
	late.ClaimBy = past
	drained.State, drained.DrainUntil, drained.DrainVersion = lease.Draining, past, lease.SetVersion{Generation: 1 << 22}
	limited.MaxUntil = past
	require.NoError(t, b.Store.Transact(t.Context(), store.Batch{Scopes: []scope.Scope{late.Scope, drained.Scope, limited.Scope}},
		func(store.Loaded) (store.Changes, error) {
			return store.Changes{Leases: []lease.Lease{drained, limited}}, nil
		}))
	require.ElementsMatch(t, []scope.Scope{drained.Scope, limited.Scope}, due(t, b))

	silent := loadSession(t, b.Store, s.ID)
	silent.ExpiresAt = past
	putSession(t, b, silent)
	require.ElementsMatch(t, []scope.Scope{live.Scope, late.Scope, drained.Scope, limited.Scope}, due(t, b))
}

// dueOfDeadNode: one session row makes all of them due and grantable; nothing
// is written for a lease before somebody wants its scope.
func dueOfDeadNode(t *testing.T, b *Bench) {
	const leases = 10_000
	dead, next := b.open(t, "dead", MaxTTL), b.open(t, "next", MaxTTL)
	var scopes []scope.Scope
	for range leases {
		scopes = append(scopes, named(t, b.id("of-dead-")))
	}
	for at := 0; at < leases; at += 1000 {
		b.grantMany(t, scopes[at:at+1000], dead)
	}
	silent := loadSession(t, b.Store, dead.ID)
	silent.ExpiresAt = silent.Registered.Add(-time.Hour)
	putSession(t, b, silent)
	require.Len(t, due(t, b), leases)
	a, err := b.acquire(t.Context(), b.Store, scopes[leases-1], next)
	require.NoError(t, err)
	require.Equal(t, lease.Acquired, a.Code)
	all, err := b.Store.Leases(t.Context(), store.LeaseFilter{Node: "dead"})
	require.NoError(t, err)
	require.Len(t, all, leases-1, "the others were not touched")
}

// grantMany grants scopes to one session in one transaction.
func (b *Bench) grantMany(t testing.TB, scopes []scope.Scope, s lease.Session) {
	t.Helper()
	err := b.Store.Transact(t.Context(), store.Batch{Scopes: scopes, Sessions: []string{s.ID}}, func(l store.Loaded) (store.Changes, error) {
		var c store.Changes
		session := l.Sessions[s.ID]
		for _, sc := range scopes {
			kase := caseOf(l, sc)
			kase.Sessions = map[string]lease.Session{s.ID: session}
			ch, a := lease.Acquire(facts(l), policy(), kase, lease.AcquireRequest{Session: s.ID, Nonce: s.Nonce, LeaseID: b.id("L"), Holder: lease.Holder{Kind: lease.HolderRun, ID: "r"}, Purpose: lease.Work})
			require.Equal(t, lease.Acquired, a.Code)
			granted := ch.Leases[0]
			granted.State = lease.Live
			session = ch.Sessions[0]
			c.Scopes, c.Leases = append(c.Scopes, *ch.Scope), append(c.Leases, granted)
		}
		c.Sessions = []lease.Session{session}
		return c, nil
	})
	require.NoError(t, err)
}

func pruneKeeps(t *testing.T, b *Bench) {
	s := b.open(t, "n1", MaxTTL)
	sc := named(t, "pruned")
	old := b.hold(t, sc, s)
	old.State, old.EndReason, old.EndedAt = lease.Ended, lease.Released, old.AcquiredAt.Add(-2*time.Hour)
	line := lease.Audit{At: old.EndedAt, Actor: "ann", Action: "force-release", Scope: sc.String(), Epoch: old.Epoch, Reason: "stuck"}
	require.NoError(t, b.Store.Transact(t.Context(), store.Batch{Scopes: []scope.Scope{sc}}, func(store.Loaded) (store.Changes, error) {
		return store.Changes{Leases: []lease.Lease{old}, Audit: []lease.Audit{line}}, nil
	}))
	live := b.hold(t, sc, s)
	c := b.command()
	result(t, b.Store, c, "kept")
	keep := store.Retention{Commands: time.Hour, Ended: time.Hour, Audit: time.Hour}
	require.NoError(t, b.Store.Prune(t.Context(), keep, 100))
	all, err := b.Store.Leases(t.Context(), store.LeaseFilter{Scope: sc, Ended: true})
	require.NoError(t, err)
	require.Equal(t, []lease.Lease{live}, all)
	lines, err := b.Store.Audit(t.Context(), sc, 10)
	require.NoError(t, err)
	for _, l := range lines {
		require.NotEqual(t, "force-release", l.Action)
	}
	require.NotNil(t, result(t, b.Store, c, "again"), "a young result is kept")
	v, err := b.Store.Scope(t.Context(), sc)
	require.NoError(t, err)
	require.Equal(t, live.Epoch, v.Record.Epoch, "a scope's epoch is never forgotten")
}
