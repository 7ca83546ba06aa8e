package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/authority/store/postgres"
	"github.com/forgeyard/concurrency/authority/store/postgres/pgtest"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

func server(t *testing.T, opts pgtest.Options) *pgtest.Server {
	t.Helper()
	s, err := pgtest.New(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return s
}

// raise gives scope the next epoch in one acknowledged transaction.
func raise(ctx context.Context, s store.Store, sc scope.Scope) (epoch.Epoch, error) {
	var got epoch.Epoch
	err := s.Transact(ctx, store.Batch{Scopes: []scope.Scope{sc}}, func(l store.Loaded) (store.Changes, error) {
		rec := l.Scopes[sc.ID()]
		next, err := epoch.Next(rec.Epoch, l.Generation)
		rec.Epoch, got = next, next
		return store.Changes{Scopes: []lease.Record{rec}}, err
	})
	return got, err
}

// TestFC50_NoEpochIsIssuedTwiceAcrossAKillOfPostgres kills the whole server
// right after acknowledged grants: a sequence may hand out again what it had
// handed out; a column may not.
func TestFC50_NoEpochIsIssuedTwiceAcrossAKillOfPostgres(t *testing.T) {
	t.Parallel()
	pg := server(t, pgtest.Options{})
	url := pg.Database(t)
	require.NoError(t, postgres.Migrate(t.Context(), url))
	sc, err := scope.Parse("acme/environment:prod")
	require.NoError(t, err)
	seen := map[epoch.Epoch]bool{}
	var last epoch.Epoch
	for round := range 3 {
		s := open(t, url)
		for range 20 {
			e, err := raise(t.Context(), s, sc)
			require.NoError(t, err)
			require.False(t, seen[e], "round %d: epoch %d twice", round, e)
			require.Greater(t, e, last)
			seen[e], last = true, e
		}
		pg.Kill()
		_, err := raise(t.Context(), s, sc)
		require.Error(t, err)
		require.True(t, errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOutcomeUnknown), "%v", err)
		require.NoError(t, pg.Start(t.Context()))
	}
	v, err := open(t, url).Scope(t.Context(), sc)
	require.NoError(t, err)
	require.Equal(t, last, v.Record.Epoch, "an acknowledged epoch was lost")
}

// TestFC98_APromotionIsSeenByTheNextTransaction promotes a real standby. What
// pg_control_checkpoint says at that moment is still the old timeline.
func TestFC98_APromotionIsSeenByTheNextTransaction(t *testing.T) {
	t.Parallel()
	primary := server(t, pgtest.Options{})
	db := primary.Database(t)
	require.NoError(t, postgres.Migrate(t.Context(), db))
	before, err := open(t, db).Enlist(t.Context(), store.Incarnation{ID: "I1", Live: time.Minute})
	require.NoError(t, err)

	standby := server(t, pgtest.Options{Basebackup: primary})
	followed := standby.URL(databaseOf(t, db))
	s, err := postgres.Open(t.Context(), postgres.Config{URL: followed, MaxTTL: time.Minute})
	require.NoError(t, err)
	defer s.Close()
	err = s.Transact(t.Context(), store.Batch{}, func(store.Loaded) (store.Changes, error) { return store.Changes{}, nil })
	require.ErrorIs(t, err, store.ErrUnavailable, "a standby grants nothing")

	primary.Kill()
	require.NoError(t, standby.Promote(t.Context()))
	var seen store.Identity
	require.NoError(t, s.Transact(t.Context(), store.Batch{}, func(l store.Loaded) (store.Changes, error) {
		seen = l.Identity
		return store.Changes{}, nil
	}))
	require.Equal(t, before.Identity.System, seen.System)
	require.NotEqual(t, before.Identity.Timeline, seen.Timeline, "the new timeline at once, before any checkpoint")

	after, err := s.Enlist(t.Context(), store.Incarnation{ID: "I1", Live: time.Minute})
	require.NoError(t, err)
	require.True(t, after.Raised)
	require.Greater(t, after.Generation, before.Generation)
}

// databaseOf is the name of the database in one of pgtest's URLs.
func databaseOf(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	require.NoError(t, err)
	return strings.TrimPrefix(u.Path, "/")
}

// TestSchemaOlderThanTheProgramIsRefusedByName is what a person sees who
// forgot to migrate.
func TestSchemaOlderThanTheProgramIsRefusedByName(t *testing.T) {
	t.Parallel()
	_, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.Database(t), MaxTTL: time.Minute})
	require.ErrorIs(t, err, store.ErrSchema)
	require.ErrorContains(t, err, "forgeyard-authority migrate")
}
