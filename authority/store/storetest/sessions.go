package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

func sessionCases() []Case {
	return []Case{
		{"session/every field comes back", sessionRoundTrip},
		{"session/found by its node until it has ended", sessionByNode},
		{"session/a second transaction waits and sees the first version", sessionWaits},
		{"session/a heartbeat that was acknowledged is seen by a waiting takeover (FC93)", sessionBeatSeen},
		{"session/one node registers twice at once: one session", sessionOnce},
		{"session/replaced within one transaction", sessionReplaced},
		{"session/FC100 who acts on an expiry ends it; the late heartbeat revives nothing", sessionExpiryWritten},
	}
}

func putSession(t testing.TB, b *Bench, s lease.Session) {
	t.Helper()
	require.NoError(t, b.Store.Transact(t.Context(), store.Batch{Sessions: []string{s.ID}}, func(store.Loaded) (store.Changes, error) {
		return store.Changes{Sessions: []lease.Session{s}}, nil
	}))
}

func loadSession(t testing.TB, s store.Store, id string) lease.Session {
	t.Helper()
	var out lease.Session
	require.NoError(t, s.Transact(t.Context(), store.Batch{Sessions: []string{id}}, func(l store.Loaded) (store.Changes, error) {
		out = l.Sessions[id]
		return store.Changes{}, nil
	}))
	return out
}

func sessionRoundTrip(t *testing.T, b *Bench) {
	s := b.open(t, "n1", 12345*time.Millisecond)
	s.Tenants = []string{"acme"}
	s.Nonce, s.SetVersion, s.Applied = "other", 1<<40, lease.SetVersion{Generation: 1 << 22, Version: 1 << 41}
	s.ExpiresAt = s.ExpiresAt.Add(time.Minute)
	putSession(t, b, s)
	require.Equal(t, s, loadSession(t, b.DB.Open(t), s.ID))
	s.End, s.EndedAt = lease.SessionClosed, s.Registered.Add(time.Second)
	putSession(t, b, s)
	require.Equal(t, s, loadSession(t, b.Store, s.ID))
}

func byNode(t testing.TB, b *Bench, node string) map[string]lease.Session {
	t.Helper()
	var out map[string]lease.Session
	require.NoError(t, b.Store.Transact(t.Context(), store.Batch{Nodes: []string{node}}, func(l store.Loaded) (store.Changes, error) {
		out = l.Sessions
		return store.Changes{}, nil
	}))
	return out
}

func sessionByNode(t *testing.T, b *Bench) {
	require.Empty(t, byNode(t, b, "n1"))
	s := b.open(t, "n1", MaxTTL)
	b.open(t, "n2", MaxTTL)
	require.Equal(t, map[string]lease.Session{s.ID: s}, byNode(t, b, "n1"))
	s.End, s.EndedAt = lease.SessionReplaced, s.Registered
	putSession(t, b, s)
	require.Empty(t, byNode(t, b, "n1"))
}

func sessionWaits(t *testing.T, b *Bench) {
	s := b.open(t, "n1", MaxTTL)
	batch := store.Batch{Sessions: []string{s.ID}}
	bump := func(l store.Loaded) (store.Changes, error) {
		was := l.Sessions[s.ID]
		was.SetVersion++
		return store.Changes{Sessions: []lease.Session{was}}, nil
	}
	var seen uint64
	b.pair(t, batch, batch, bump, func(l store.Loaded) (store.Changes, error) {
		seen = l.Sessions[s.ID].SetVersion
		return bump(l)
	})
	require.Equal(t, s.SetVersion+1, seen)
	require.Equal(t, s.SetVersion+2, loadSession(t, b.Store, s.ID).SetVersion)
}

// sessionBeatSeen: the takeover waits behind a transaction; a heartbeat is
// acknowledged meanwhile; the takeover must be shown the renewed row.
func sessionBeatSeen(t *testing.T, b *Bench) {
	sc := named(t, "alive")
	s := b.open(t, "n1", MaxTTL)
	b.hold(t, sc, s)
	renewed := s
	renewed.ExpiresAt = s.ExpiresAt.Add(30 * time.Second)
	renewed.SetVersion = loadSession(t, b.Store, s.ID).SetVersion
	var seen time.Time
	b.pair(t, store.Batch{Sessions: []string{s.ID}}, store.Batch{Scopes: []scope.Scope{sc}},
		func(store.Loaded) (store.Changes, error) {
			return store.Changes{Sessions: []lease.Session{renewed}}, nil
		},
		func(l store.Loaded) (store.Changes, error) {
			seen = l.Sessions[s.ID].ExpiresAt
			return store.Changes{}, nil
		})
	require.Equal(t, renewed.ExpiresAt, seen)
}

func sessionOnce(t *testing.T, b *Bench) {
	stores := []store.Store{b.Store, b.DB.Open(t)}
	answers := make([]lease.Answer, 6)
	var wg sync.WaitGroup
	for i := range answers {
		id := b.id("S")
		wg.Go(func() {
			err := stores[i%2].Transact(context.Background(), store.Batch{Nodes: []string{"n1"}}, func(l store.Loaded) (store.Changes, error) {
				var open *lease.Session
				for _, s := range l.Sessions {
					open = &s
				}
				ch, a := lease.Register(facts(l), open, lease.RegisterRequest{Session: id, Node: "n1", Nonce: id, BootID: "b", TTL: MaxTTL, Tenants: []string{"acme"}})
				answers[i] = a
				return written(ch), nil
			})
			if err != nil {
				t.Errorf("register: %v", err)
			}
		})
	}
	wg.Wait()
	registered := 0
	for _, a := range answers {
		if a.Code == lease.Registered {
			registered++
		}
	}
	require.Equal(t, 1, registered)
	require.Len(t, byNode(t, b, "n1"), 1)
}

func sessionReplaced(t *testing.T, b *Bench) {
	s := b.open(t, "n1", MaxTTL)
	fresh := s
	fresh.ID, fresh.Nonce = "S-fresh", "fresh"
	s.End, s.EndedAt = lease.SessionReplaced, s.Registered
	require.NoError(t, b.Store.Transact(t.Context(), store.Batch{Nodes: []string{"n1"}}, func(store.Loaded) (store.Changes, error) {
		return store.Changes{Sessions: []lease.Session{fresh, s}}, nil // in the order that a unique index dislikes
	}))
	require.Equal(t, map[string]lease.Session{fresh.ID: fresh}, byNode(t, b, "n1"))
}

func sessionExpiryWritten(t *testing.T, b *Bench) {
	sc := named(t, "expired")
	dead, next := b.open(t, "n1", MaxTTL), b.open(t, "n2", MaxTTL)
	l := b.hold(t, sc, dead)
	silent := loadSession(t, b.Store, dead.ID)
	silent.ExpiresAt = silent.Registered.Add(-time.Hour)
	putSession(t, b, silent)
	a, err := b.acquire(t.Context(), b.Store, sc, next)
	require.NoError(t, err)
	require.Equal(t, lease.Acquired, a.Code)
	beats, err := b.Store.Heartbeat(t.Context(), []lease.Beat{{Session: dead.ID, Nonce: dead.Nonce}}, true)
	require.NoError(t, err)
	require.Equal(t, lease.Renewed, beats.Pulses[0].Answer.Code, "the session itself is revived")
	set, err := b.Store.Set(t.Context(), dead.ID, []string{l.ID})
	require.NoError(t, err)
	require.Empty(t, set.Leases)
	require.Len(t, set.Ended, 1)
	require.Equal(t, lease.Expired, set.Ended[0].Lease.EndReason)
	require.Equal(t, a.Lease.ID, set.Ended[0].Successor.ID)
	require.True(t, lease.SetVersion{Generation: set.Version.Generation, Version: silent.SetVersion}.Before(set.Version), "the set is newer")
}
