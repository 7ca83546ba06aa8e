package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/authority/store/postgres"
	"github.com/forgeyard/concurrency/authority/store/postgres/pgtest"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

func TestSmoke(t *testing.T) {
	url := pgtest.Database(t)
	_, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxTTL: time.Minute})
	require.ErrorIs(t, err, store.ErrSchema)
	require.NoError(t, postgres.Migrate(t.Context(), url))
	s, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxTTL: time.Minute})
	require.NoError(t, err)
	defer s.Close()
	st, err := s.Enlist(t.Context(), store.Incarnation{ID: "i1", Live: 3 * time.Second})
	require.NoError(t, err)
	require.True(t, st.Raised)
	sc, _ := scope.Parse("acme/environment:prod")
	now := st.Now
	sess := lease.Session{ID: "S1", Node: "n1", Tenants: []string{"acme"}, Nonce: "x", BootID: "b", TTL: 5 * time.Second, Registered: now, ExpiresAt: now.Add(5 * time.Second), SetVersion: 1}
	err = s.Transact(t.Context(), store.Batch{Commands: []store.Command{{ID: "c1", Principal: "p"}}, Scopes: []scope.Scope{sc}, Nodes: []string{"n1"}},
		func(l store.Loaded) (store.Changes, error) {
			require.Len(t, l.Scopes, 1)
			return store.Changes{Sessions: []lease.Session{sess}, Results: map[int][]byte{0: []byte("r")}}, nil
		})
	require.NoError(t, err)
	pol := lease.Policy{Requirement: lease.Exclusive, MinTTL: time.Second, MaxTTL: time.Minute, ClaimTimeout: time.Second, OnUncleanEnd: lease.FreeAfter}
	err = s.Transact(t.Context(), store.Batch{Commands: []store.Command{{ID: "c1", Principal: "p"}, {ID: "c2", Principal: "p"}}, Scopes: []scope.Scope{sc}, Sessions: []string{"S1"}},
		func(l store.Loaded) (store.Changes, error) {
			require.Len(t, l.Replayed, 1)
			require.Equal(t, "r", string(l.Replayed[0].Result))
			f := lease.Facts{Now: l.Now, Generation: l.Generation, Pause: lease.NoPause(), MaxTTL: time.Minute}
			ch, a := lease.Acquire(f, pol, lease.Case{Scope: l.Scopes[sc.ID()], Sessions: l.Sessions}, lease.AcquireRequest{Session: "S1", Nonce: "x", LeaseID: "L1", Holder: lease.Holder{Kind: lease.HolderRun, ID: "1"}, Purpose: lease.Work})
			require.Equal(t, lease.Acquired, a.Code, a)
			return store.Changes{Scopes: []lease.Record{*ch.Scope}, Leases: ch.Leases, Sessions: ch.Sessions, Results: map[int][]byte{1: []byte("x")}}, nil
		})
	require.NoError(t, err)
	beats, err := s.Heartbeat(t.Context(), []lease.Beat{{Session: "S1", Nonce: "x", Applied: lease.SetVersion{Generation: st.Generation, Version: 2}}, {Session: "S2"}}, false)
	require.NoError(t, err)
	require.Equal(t, lease.Renewed, beats.Pulses[0].Answer.Code)
	require.Equal(t, lease.SessionUnknown, beats.Pulses[1].Answer.Reason)
	set, err := s.Set(t.Context(), "S1", []string{"L1"})
	require.NoError(t, err)
	require.Len(t, set.Leases, 1)
	require.Equal(t, uint64(2), set.Session.Applied.Version)
	_, err = s.Due(t.Context(), time.Second, 10)
	require.NoError(t, err)
	v, err := s.Scope(t.Context(), sc)
	require.NoError(t, err)
	require.Len(t, v.Leases, 1)
	require.NoError(t, s.Prune(t.Context(), store.Retention{Commands: time.Hour, Ended: time.Hour, Audit: time.Hour}, 10))
	_, err = s.Renew(t.Context(), store.Incarnation{ID: "i1"})
	require.NoError(t, err)
}
