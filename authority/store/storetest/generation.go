package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

func generationCases() []Case {
	return []Case{
		{"generation/a start that sees nobody raises it by the clock rule", generationRaised},
		{"generation/a witness is outdone", generationWitness},
		{"generation/FC94 a raise waits for a granting transaction, the next grant has it", generationWaits},
		{"generation/an incarnation that was never enlisted is missing", incarnationMissing},
		{"identity/every transaction and heartbeat shows it", identityShown},
	}
}

func generationRaised(t *testing.T, b *Bench) {
	require.True(t, b.Start.Raised)
	least, err := epoch.Raise(0, 0, b.Start.Now)
	require.NoError(t, err)
	require.Equal(t, least, b.Start.Generation)
	require.False(t, b.Start.Identity == store.Identity{})
}

func generationWitness(t *testing.T, b *Bench) {
	st, err := b.Store.Enlist(t.Context(), store.Incarnation{ID: "I1", Live: time.Minute, Witness: b.Start.Generation + 100})
	require.NoError(t, err)
	require.Equal(t, b.Start.Generation+101, st.Generation)
	s := b.open(t, "n1", MaxTTL)
	l := b.hold(t, named(t, "after"), s)
	require.Equal(t, st.Generation, l.Epoch.Generation())
}

// generationWaits: the raise may not slip between the locks of a grant and its
// look at the generation.
func generationWaits(t *testing.T, b *Bench) {
	sc := named(t, "granting")
	s := b.open(t, "n1", MaxTTL)
	require.NoError(t, b.Store.Transact(t.Context(), store.Batch{Scopes: []scope.Scope{sc}}, setEpoch(sc, 0)))
	other := b.DB.Open(t)
	before := b.DB.Waiting(t)
	raised, granted := make(chan store.Standing, 1), make(chan error, 1)
	inside, release := make(chan struct{}), make(chan struct{})
	entered := false
	var first lease.Answer
	go func() {
		granted <- b.Store.Transact(context.Background(), store.Batch{Scopes: []scope.Scope{sc}, Sessions: []string{s.ID}}, func(l store.Loaded) (store.Changes, error) {
			if !entered {
				entered = true
				close(inside)
				<-release
			}
			ch, a := lease.Acquire(facts(l), policy(), caseOf(l, sc), lease.AcquireRequest{Session: s.ID, Nonce: s.Nonce, LeaseID: "L-first", Holder: lease.Holder{Kind: lease.HolderRun, ID: "r"}, Purpose: lease.Work})
			first = a
			return written(ch), nil
		})
	}()
	<-inside
	go func() {
		st, err := other.Enlist(context.Background(), store.Incarnation{ID: "I1", Live: time.Minute, Witness: b.Start.Generation})
		if err != nil {
			t.Errorf("raise: %v", err)
		}
		raised <- st
	}()
	await(t, "the raise waits", func() bool { return b.DB.Waiting(t) > before })
	close(release)
	require.NoError(t, <-granted)
	st := <-raised
	require.Greater(t, st.Generation, first.Epoch.Generation(), "the grant came before the raise")
	next := b.hold(t, named(t, "next"), s)
	require.Equal(t, st.Generation, next.Epoch.Generation())
}

func incarnationMissing(t *testing.T, b *Bench) {
	st, err := b.Store.Renew(t.Context(), store.Incarnation{ID: "I1"})
	require.NoError(t, err)
	require.False(t, st.Missing)
	require.Equal(t, b.Start.Generation, st.Generation)
	st, err = b.Store.Renew(t.Context(), store.Incarnation{ID: "never enlisted"})
	require.NoError(t, err)
	require.True(t, st.Missing)
}

func identityShown(t *testing.T, b *Bench) {
	err := b.Store.Transact(t.Context(), store.Batch{}, func(l store.Loaded) (store.Changes, error) {
		require.Equal(t, b.Start.Identity, l.Identity)
		require.Equal(t, b.Start.Generation, l.Generation)
		require.WithinDuration(t, b.Start.Now, l.Now, time.Minute)
		return store.Changes{}, nil
	})
	require.NoError(t, err)
	id, err := b.Store.AuthorityID(t.Context())
	require.NoError(t, err)
	again, err := b.DB.Open(t).AuthorityID(t.Context())
	require.NoError(t, err)
	require.Equal(t, id, again)
	require.Len(t, id, 26)
}
