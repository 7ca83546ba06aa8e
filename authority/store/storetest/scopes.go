package storetest

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

func scopeCases() []Case {
	return []Case{
		{"scope/an unknown one is open with epoch 0", scopeUnknown},
		{"scope/epoch, state and reason are kept", scopeKept},
		{"scope/a second transaction waits and sees the first epoch", scopeWaits},
		{"scope/new scopes from two replicas at once", scopesCreatedTwice},
		{"scope/FC96 one folded row of a batch raises the epoch for each grant", scopeFolded},
		{"scope/many of one batch in any order", scopesMany},
	}
}

func scopeUnknown(t *testing.T, b *Bench) {
	s := named(t, "fresh")
	v, err := b.Store.Scope(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, lease.Record{Scope: s, State: lease.Open}, v.Record)
	err = b.Store.Transact(t.Context(), store.Batch{Scopes: []scope.Scope{s}}, func(l store.Loaded) (store.Changes, error) {
		require.Equal(t, lease.Record{Scope: s, State: lease.Open}, l.Scopes[s.ID()])
		return store.Changes{}, nil
	})
	require.NoError(t, err)
}

func setEpoch(s scope.Scope, e epoch.Epoch) func(store.Loaded) (store.Changes, error) {
	return func(store.Loaded) (store.Changes, error) {
		return store.Changes{Scopes: []lease.Record{{Scope: s, Epoch: e, State: lease.Open}}}, nil
	}
}

func scopeKept(t *testing.T, b *Bench) {
	s := named(t, "kept")
	want := lease.Record{Scope: s, Epoch: 1<<62 + 5, State: lease.Blocked, Reason: "lease L of run r ended: expired"}
	require.NoError(t, b.Store.Transact(t.Context(), store.Batch{Scopes: []scope.Scope{s}}, func(store.Loaded) (store.Changes, error) {
		return store.Changes{Scopes: []lease.Record{want}}, nil
	}))
	v, err := b.DB.Open(t).Scope(t.Context(), s)
	require.NoError(t, err)
	require.Equal(t, want, v.Record)
}

func scopeWaits(t *testing.T, b *Bench) {
	s := named(t, "hot")
	batch := store.Batch{Scopes: []scope.Scope{s}}
	require.NoError(t, b.Store.Transact(t.Context(), batch, setEpoch(s, 1)))
	var seen epoch.Epoch
	b.pair(t, batch, batch, setEpoch(s, 41), func(l store.Loaded) (store.Changes, error) {
		seen = l.Scopes[s.ID()].Epoch
		return setEpoch(s, seen+1)(l)
	})
	require.EqualValues(t, 41, seen)
	v, err := b.Store.Scope(t.Context(), s)
	require.NoError(t, err)
	require.EqualValues(t, 42, v.Record.Epoch)
}

func scopesCreatedTwice(t *testing.T, b *Bench) {
	stores := []store.Store{b.Store, b.DB.Open(t)}
	var scopes []scope.Scope
	for range 20 {
		scopes = append(scopes, named(t, b.id("new-")))
	}
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() {
			errs[i] = stores[i%2].Transact(context.Background(), store.Batch{Scopes: scopes}, func(l store.Loaded) (store.Changes, error) {
				var c store.Changes
				for _, r := range l.Scopes {
					r.Epoch++
					c.Scopes = append(c.Scopes, r)
				}
				return c, nil
			})
		})
	}
	wg.Wait()
	for i, err := range errs {
		require.NoError(t, err, "transaction %d", i)
	}
	for _, s := range scopes {
		v, err := b.Store.Scope(t.Context(), s)
		require.NoError(t, err)
		require.EqualValues(t, len(errs), v.Record.Epoch, "an increment was lost")
	}
}

// scopeFolded grants, releases and grants again in one batch, as the engine
// folds it: the row is written once, with the last epoch.
func scopeFolded(t *testing.T, b *Bench) {
	sc := named(t, "folded")
	s := b.open(t, "n1", MaxTTL)
	err := b.Store.Transact(t.Context(), store.Batch{Scopes: []scope.Scope{sc}, Sessions: []string{s.ID}}, func(l store.Loaded) (store.Changes, error) {
		f, c := facts(l), caseOf(l, sc)
		var all lease.Change
		var leases []lease.Lease
		for i := range 3 {
			ch, a := lease.Acquire(f, policy(), c, lease.AcquireRequest{Session: s.ID, Nonce: s.Nonce, LeaseID: b.id("L"), Holder: lease.Holder{Kind: lease.HolderRun, ID: "r"}, Purpose: lease.Work})
			require.Equal(t, lease.Acquired, a.Code)
			c = c.Apply(ch)
			all.Scope, all.Sessions = ch.Scope, ch.Sessions
			granted := *a.Lease
			if i < 2 {
				ch, a = lease.Release(f, policy(), c, lease.ReleaseRequest{Ref: lease.Ref{Session: s.ID, Nonce: s.Nonce, Lease: granted.ID, Epoch: granted.Epoch}, Why: lease.Released})
				require.Equal(t, lease.Done, a.Code)
				c = c.Apply(ch)
				all.Sessions = ch.Sessions
				granted = *a.Lease
			}
			leases = append(leases, granted)
		}
		all.Leases = leases
		return written(all), nil
	})
	require.NoError(t, err)
	v, err := b.Store.Scope(t.Context(), sc)
	require.NoError(t, err)
	require.Len(t, v.Leases, 1)
	require.Equal(t, v.Record.Epoch, v.Leases[0].Epoch)
	require.EqualValues(t, 3, v.Record.Epoch.Counter(), "three grants, three epochs")
	all, err := b.Store.Leases(t.Context(), store.LeaseFilter{Scope: sc, Ended: true})
	require.NoError(t, err)
	require.Len(t, all, 3)
}

func scopesMany(t *testing.T, b *Bench) {
	s := b.open(t, "n1", MaxTTL)
	var scopes []scope.Scope
	for range 100 {
		scopes = append(scopes, named(t, b.id("many-")))
	}
	for _, sc := range scopes {
		b.hold(t, sc, s)
	}
	err := b.Store.Transact(t.Context(), store.Batch{Scopes: append(scopes[50:], scopes[:50]...)}, func(l store.Loaded) (store.Changes, error) {
		require.Len(t, l.Scopes, 100)
		require.Len(t, l.Leases, 100)
		require.Contains(t, l.Sessions, s.ID, "the holders' sessions come along")
		return store.Changes{}, nil
	})
	require.NoError(t, err)
}
