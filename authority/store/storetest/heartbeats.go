package storetest

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
)

func heartbeatCases() []Case {
	return []Case{
		{"heartbeat/FC02 renews exactly the process that it names, and creates nothing", beatExact},
		{"heartbeat/FC03 repeated ten times it changes no epoch and no version", beatIdempotent},
		{"heartbeat/does what the pure rule does, in random cases", beatLikeTheRule},
		{"heartbeat/FC106 a locked row is skipped, or waited for", beatLocked},
		{"heartbeat/a thousand at once", beatMany},
	}
}

func beatExact(t *testing.T, b *Bench) {
	s := b.open(t, "n1", MaxTTL)
	ended := b.open(t, "n2", MaxTTL)
	ended.End, ended.EndedAt = lease.SessionClosed, ended.Registered
	putSession(t, b, ended)
	beats, err := b.Store.Heartbeat(t.Context(), []lease.Beat{
		{Session: s.ID, Nonce: s.Nonce}, {Session: s.ID + "x", Nonce: s.Nonce}, {Session: ended.ID, Nonce: ended.Nonce},
	}, true)
	require.NoError(t, err)
	require.Equal(t, lease.Renewed, beats.Pulses[0].Answer.Code)
	require.Equal(t, MaxTTL, beats.Pulses[0].Answer.Remaining)
	require.Equal(t, lease.SessionUnknown, beats.Pulses[1].Answer.Reason)
	require.Equal(t, lease.SessionEnded, beats.Pulses[2].Answer.Reason)
	beats, err = b.Store.Heartbeat(t.Context(), []lease.Beat{{Session: s.ID, Nonce: "stale"}}, true)
	require.NoError(t, err)
	require.Equal(t, lease.WrongNonce, beats.Pulses[0].Answer.Reason)
	sessions, err := b.Store.Sessions(t.Context())
	require.NoError(t, err)
	require.Len(t, sessions, 1)
	require.WithinDuration(t, beats.Now.Add(MaxTTL), sessions[0].ExpiresAt, 5*time.Second)
	require.Equal(t, b.Start.Identity, beats.Identity)
}

func beatIdempotent(t *testing.T, b *Bench) {
	s := b.open(t, "n1", MaxTTL)
	sc := named(t, "renewed")
	l := b.hold(t, sc, s)
	before := loadSession(t, b.Store, s.ID)
	for range 10 { // ten replies in a row are lost
		_, err := b.Store.Heartbeat(t.Context(), []lease.Beat{{Session: s.ID, Nonce: s.Nonce}}, false)
		require.NoError(t, err)
	}
	after := loadSession(t, b.Store, s.ID)
	after.ExpiresAt = before.ExpiresAt
	require.Equal(t, before, after)
	v, err := b.Store.Scope(t.Context(), sc)
	require.NoError(t, err)
	require.Equal(t, l.Epoch, v.Record.Epoch)
	require.Equal(t, []lease.Lease{l}, v.Leases)
}

// beatLikeTheRule compares the statement of the store with lease.Heartbeat.
func beatLikeTheRule(t *testing.T, b *Bench) {
	rng := rand.New(rand.NewPCG(1, 2))
	near := func(g epoch.Generation, v uint64) lease.SetVersion {
		return lease.SetVersion{Generation: g + epoch.Generation(rng.IntN(3)) - 1, Version: v + uint64(rng.IntN(5)) - 2}
	}
	s := b.open(t, "n1", MaxTTL)
	for range 60 {
		s = loadSession(t, b.Store, s.ID)
		s.SetVersion, s.Applied = uint64(10+rng.IntN(5)), near(b.Start.Generation, 12)
		s.Nonce = []string{"a", "b"}[rng.IntN(2)]
		putSession(t, b, s)
		beat := lease.Beat{Session: s.ID, Nonce: []string{"a", "b"}[rng.IntN(2)], Applied: near(b.Start.Generation, 12)}
		got, err := b.Store.Heartbeat(t.Context(), []lease.Beat{beat}, true)
		require.NoError(t, err)
		want, answer := lease.Heartbeat(lease.Facts{Now: got.Now, Generation: b.Start.Generation}, s, beat)
		require.Equal(t, answer, got.Pulses[0].Answer, "%+v against %+v", beat, s)
		is := loadSession(t, b.Store, s.ID)
		require.Equal(t, want.Applied, is.Applied, "%+v against %+v", beat, s)
		require.WithinDuration(t, want.ExpiresAt, is.ExpiresAt, 5*time.Second)
	}
}

// beatLocked holds one row in a transaction and renews it with another.
func beatLocked(t *testing.T, b *Bench) {
	held, free := b.open(t, "n1", MaxTTL), b.open(t, "n2", MaxTTL)
	other := b.DB.Open(t)
	inside, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		entered := false
		ended <- b.Store.Transact(context.Background(), store.Batch{Sessions: []string{held.ID}}, func(store.Loaded) (store.Changes, error) {
			if !entered {
				entered = true
				close(inside)
				<-release
			}
			return store.Changes{}, nil
		})
	}()
	<-inside
	beats := []lease.Beat{{Session: held.ID, Nonce: held.Nonce}, {Session: free.ID, Nonce: free.Nonce}}
	type answer struct {
		beats store.Beats
		err   error
	}
	answers := make(chan answer, 1)
	waiting := b.DB.Waiting(t)
	go func() {
		got, err := other.Heartbeat(context.Background(), beats, false)
		answers <- answer{got, err}
	}()
	// Either the other row is renewed while the first is locked, or, on a store
	// with one writer, the heartbeat waits as a whole and loses nothing.
	var got answer
	await(t, "the heartbeat is answered, or waits for the one writer", func() bool {
		select {
		case got = <-answers:
			return true
		default:
			return b.DB.Waiting(t) > waiting
		}
	})
	close(release)
	require.NoError(t, <-ended)
	if got.beats.Pulses == nil {
		got = <-answers
		require.False(t, got.beats.Pulses[0].Skipped)
	} else {
		require.True(t, got.beats.Pulses[0].Skipped)
	}
	require.NoError(t, got.err)
	require.Equal(t, lease.Renewed, got.beats.Pulses[1].Answer.Code)
	again, err := other.Heartbeat(t.Context(), beats[:1], true)
	require.NoError(t, err)
	require.Equal(t, lease.Renewed, again.Pulses[0].Answer.Code)
}

func beatMany(t *testing.T, b *Bench) {
	var beats []lease.Beat
	for range 1000 {
		s := b.open(t, b.id("n"), MaxTTL)
		beats = append(beats, lease.Beat{Session: s.ID, Nonce: s.Nonce})
	}
	got, err := b.Store.Heartbeat(t.Context(), beats, false)
	require.NoError(t, err)
	for i, p := range got.Pulses {
		require.Equal(t, lease.Renewed, p.Answer.Code, "beat %d", i)
	}
}
