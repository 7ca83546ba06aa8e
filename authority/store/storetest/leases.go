package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

func leaseCases() []Case {
	return []Case{
		{"lease/every field comes back", leaseRoundTrip},
		{"lease/FC93 a waiting acquirer is shown the lease that was granted meanwhile", leaseWaits},
		{"lease/I1 a second exclusive lease is refused by the schema itself", leaseExclusive},
		{"lease/I2 an epoch given twice is refused by the schema itself", leaseEpochTwice},
		{"lease/an ended one is not loaded", leaseEnded},
	}
}

func leaseRoundTrip(t *testing.T, b *Bench) {
	sc := named(t, "full")
	s := b.open(t, "n1", MaxTTL)
	l := b.hold(t, sc, s)
	l.State, l.EndReason, l.EndedBy, l.EndDetail, l.Unknown = lease.Draining, lease.ForceReleased, "ann", "stuck", 2
	l.DrainUntil, l.MaxUntil = l.AcquiredAt.Add(time.Second), l.AcquiredAt.Add(time.Hour)
	l.DrainVersion = lease.SetVersion{Generation: 7, Version: 1 << 40}
	require.NoError(t, b.Store.Transact(t.Context(), store.Batch{Scopes: []scope.Scope{sc}}, func(store.Loaded) (store.Changes, error) {
		return store.Changes{Leases: []lease.Lease{l}}, nil
	}))
	v, err := b.DB.Open(t).Scope(t.Context(), sc)
	require.NoError(t, err)
	require.Equal(t, []lease.Lease{l}, v.Leases)
}

// leaseWaits: a load joined with the lock would have a snapshot from before
// the wait, and a full scope would look free.
func leaseWaits(t *testing.T, b *Bench) {
	sc := named(t, "contended")
	one, two := b.open(t, "n1", MaxTTL), b.open(t, "n2", MaxTTL)
	require.NoError(t, b.Store.Transact(t.Context(), store.Batch{Scopes: []scope.Scope{sc}}, setEpoch(sc, 0)))
	acquire := func(s lease.Session, out *lease.Answer) func(store.Loaded) (store.Changes, error) {
		id := b.id("L")
		return func(l store.Loaded) (store.Changes, error) {
			ch, a := lease.Acquire(facts(l), policy(), caseOf(l, sc), lease.AcquireRequest{Session: s.ID, Nonce: s.Nonce, LeaseID: id, Holder: lease.Holder{Kind: lease.HolderRun, ID: s.Node}, Purpose: lease.Work})
			*out = a
			return written(ch), nil
		}
	}
	var first, second lease.Answer
	b.pair(t, store.Batch{Scopes: []scope.Scope{sc}, Sessions: []string{one.ID}}, store.Batch{Scopes: []scope.Scope{sc}, Sessions: []string{two.ID}},
		acquire(one, &first), acquire(two, &second))
	require.Equal(t, lease.Acquired, first.Code)
	require.Equal(t, lease.Busy, second.Code)
	require.Equal(t, "n1", second.Holder.Node)
}

func leaseExclusive(t *testing.T, b *Bench) {
	sc := named(t, "once")
	s := b.open(t, "n1", MaxTTL)
	l := b.hold(t, sc, s)
	l.ID, l.Epoch = b.id("L"), l.Epoch+1
	err := b.Store.Transact(t.Context(), store.Batch{Scopes: []scope.Scope{sc}}, func(store.Loaded) (store.Changes, error) {
		return store.Changes{Leases: []lease.Lease{l}}, nil
	})
	require.ErrorIs(t, err, store.ErrConflict)
}

func leaseEpochTwice(t *testing.T, b *Bench) {
	sc := named(t, "twice")
	s := b.open(t, "n1", MaxTTL)
	l := b.hold(t, sc, s)
	ended := l
	ended.State, ended.EndedAt = lease.Ended, l.AcquiredAt
	again := l
	again.ID = b.id("L")
	err := b.Store.Transact(t.Context(), store.Batch{Scopes: []scope.Scope{sc}}, func(store.Loaded) (store.Changes, error) {
		return store.Changes{Leases: []lease.Lease{ended, again}}, nil
	})
	require.ErrorIs(t, err, store.ErrConflict)
}

func leaseEnded(t *testing.T, b *Bench) {
	sc := named(t, "over")
	s := b.open(t, "n1", MaxTTL)
	l := b.hold(t, sc, s)
	l.State, l.EndReason, l.EndedAt = lease.Ended, lease.Released, l.AcquiredAt.Add(time.Second)
	require.NoError(t, b.Store.Transact(t.Context(), store.Batch{Scopes: []scope.Scope{sc}}, func(store.Loaded) (store.Changes, error) {
		return store.Changes{Leases: []lease.Lease{l}}, nil
	}))
	err := b.Store.Transact(t.Context(), store.Batch{Scopes: []scope.Scope{sc}}, func(ld store.Loaded) (store.Changes, error) {
		require.Empty(t, ld.Leases)
		require.Empty(t, ld.Sessions)
		return store.Changes{}, nil
	})
	require.NoError(t, err)
	again := b.hold(t, sc, s)
	require.Greater(t, again.Epoch, l.Epoch)
}
