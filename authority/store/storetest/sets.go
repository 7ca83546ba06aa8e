package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"

	"github.com/forgeyard/concurrency/authority/store"
)

func setCases() []Case {
	return []Case{
		{"set/leases and version are of one snapshot", setOfSession},
		{"set/an unknown session has none", setUnknown},
		{"set/tombstones are told to their own session only", setTombstones},
	}
}

func setOfSession(t *testing.T, b *Bench) {
	s, other := b.open(t, "n1", MaxTTL), b.open(t, "n2", MaxTTL)
	one, two := b.hold(t, named(t, "one"), s), b.hold(t, named(t, "two"), s)
	b.hold(t, named(t, "three"), other)
	set, err := b.Store.Set(t.Context(), s.ID, nil)
	require.NoError(t, err)
	require.Equal(t, []lease.Lease{one, two}, set.Leases)
	require.Equal(t, lease.SetVersion{Generation: b.Start.Generation, Version: s.SetVersion + 2}, set.Version)
	require.Equal(t, s.ID, set.Session.ID)
	require.False(t, set.Now.IsZero())
}

func setUnknown(t *testing.T, b *Bench) {
	set, err := b.Store.Set(t.Context(), "nobody", []string{"L"})
	require.NoError(t, err)
	require.Empty(t, set.Session.ID)
	require.Empty(t, set.Leases)
}

func setTombstones(t *testing.T, b *Bench) {
	s, other := b.open(t, "n1", MaxTTL), b.open(t, "n2", MaxTTL)
	sc := named(t, "given-up")
	l := b.hold(t, sc, s)
	l.State, l.EndReason, l.EndedBy, l.EndDetail, l.EndedAt = lease.Ended, lease.ForceReleased, "ann", "stuck", l.AcquiredAt
	require.NoError(t, b.Store.Transact(t.Context(), store.Batch{Scopes: []scope.Scope{sc}}, func(store.Loaded) (store.Changes, error) {
		return store.Changes{Leases: []lease.Lease{l}}, nil
	}))
	next := b.hold(t, sc, other)
	set, err := b.Store.Set(t.Context(), s.ID, []string{l.ID, "unknown"})
	require.NoError(t, err)
	require.Equal(t, []store.EndedLease{{Lease: l, Successor: &next}}, set.Ended)
	set, err = b.Store.Set(t.Context(), other.ID, []string{l.ID})
	require.NoError(t, err)
	require.Empty(t, set.Ended, "somebody else's lease")
}
