package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/clock/clocktest"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/sidecar/journal"
)

func config(t testing.TB) journal.Config {
	t.Helper()
	return journal.Config{Path: filepath.Join(t.TempDir(), "journal.db"), Clock: clock.System(), Log: zap.NewNop()}
}

func open(t testing.TB, cfg journal.Config) *journal.Journal {
	t.Helper()
	j, err := journal.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { j.Close() })
	return j
}

func intent(id string) effect.Effect {
	sc, _ := scope.Parse("acme/environment:prod")
	return effect.Effect{ID: id, Lease: "L", Scope: sc, Epoch: 7, Provider: "git", Operation: "push", Key: "key-" + id, StartedAt: time.Unix(1, 0)}
}

func TestI4_AnIntentIsOnDiskWhenBeginReturns(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	j := open(t, cfg)
	require.NoError(t, j.Begin(t.Context(), intent("01")))
	raw, err := os.ReadFile(cfg.Path) // what a crash at this moment would leave
	require.NoError(t, err)
	copied := cfg
	copied.Path = filepath.Join(t.TempDir(), "copy.db")
	require.NoError(t, os.WriteFile(copied.Path, raw, 0o600))
	after := open(t, copied)
	e, ok := after.Get("01")
	require.True(t, ok)
	require.Equal(t, effect.Unknown, e.State)
	require.Equal(t, "restarted", e.Reason)
	_, unknown := after.Counts("L")
	require.Equal(t, 1, unknown)
}

func TestOutcomesRideAlongAndSurvive(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	j := open(t, cfg)
	require.NoError(t, j.Begin(t.Context(), intent("01")))
	open1, _ := j.Counts("L")
	require.Equal(t, 1, open1)
	j.Settle("01", effect.Succeeded, "", 201)
	require.NoError(t, j.WaitSettled(t.Context(), "L"))
	j.Refuse(intent("02"), "uncertain")
	require.NoError(t, j.Close())
	again := open(t, cfg)
	e, ok := again.Find("acme/environment:prod", "git", "key-01")
	require.True(t, ok)
	require.Equal(t, effect.Succeeded, e.State)
	require.Equal(t, 201, e.Status)
	_, ok = again.Find("acme/environment:prod", "git", "key-02")
	require.False(t, ok, "a refused attempt is no execution")
	list := again.List(journal.Filter{State: effect.Failed})
	require.Len(t, list, 1)
	require.Equal(t, "uncertain", list[0].Reason)
}

func TestACommitErrorEndsAdmission(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	full := errors.New("no space left on device")
	cfg.Commit = func(commit func() error) error { return full }
	j := open(t, cfg)
	err := j.Begin(t.Context(), intent("01"))
	require.ErrorIs(t, err, journal.ErrFailed)
	require.ErrorIs(t, err, full)
	<-j.Failed()
	require.ErrorIs(t, j.Begin(t.Context(), intent("02")), journal.ErrFailed)
	require.ErrorIs(t, j.Err(), full)
}

func TestOneCommitForEverythingThatWaits(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	running, gate := make(chan struct{}), make(chan struct{})
	var once sync.Once
	commits := 0
	cfg.Commit = func(commit func() error) error {
		commits++
		once.Do(func() { close(running); <-gate })
		return commit()
	}
	j := open(t, cfg)
	var wg sync.WaitGroup
	wg.Go(func() { require.NoError(t, j.Begin(t.Context(), intent("first"))) })
	<-running
	for i := range 50 {
		wg.Go(func() { require.NoError(t, j.Begin(context.Background(), intent(fmt.Sprint(i)))) })
	}
	for len(j.List(journal.Filter{})) < 51 { // every intent is queued, none but the first is being written
		runtime.Gosched()
	}
	close(gate)
	wg.Wait()
	require.Equal(t, 2, commits)
}

func TestFC56_DamagedJournalIsSetAside(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func([]byte) []byte{
		"truncated": func(b []byte) []byte { return b[:len(b)/3] },
		"garbage":   func([]byte) []byte { return []byte("no journal") },
		"zeroed":    func(b []byte) []byte { return make([]byte, len(b)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t)
			j := open(t, cfg)
			require.NoError(t, j.Begin(t.Context(), intent("01")))
			require.NoError(t, j.Close())
			raw, err := os.ReadFile(cfg.Path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(cfg.Path, damage(raw), 0o600))
			again := open(t, cfg)
			require.FileExists(t, again.Damage().SetAside)
			require.NoError(t, again.Begin(t.Context(), intent("02")))
		})
	}
}

// TestFC56_AnyPageMayBeDamaged overwrites each page of a journal in turn: it is
// set aside, or still good; the process lives in any case.
func TestFC56_AnyPageMayBeDamaged(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	j := open(t, cfg)
	for i := range 120 {
		require.NoError(t, j.Begin(t.Context(), intent(fmt.Sprintf("%03d", i))))
		j.Settle(fmt.Sprintf("%03d", i), effect.Succeeded, "", 200)
	}
	require.NoError(t, j.Close())
	good, err := os.ReadFile(cfg.Path)
	require.NoError(t, err)
	page := os.Getpagesize()
	require.Greater(t, len(good), 8*page)
	for at := 0; at < len(good); at += page {
		for _, fill := range []byte{0, 0x5a, 0xff} {
			bad := bytes.Clone(good)
			for i := at; i < at+page; i++ {
				bad[i] = fill + byte(i%7)
			}
			damaged := config(t)
			require.NoError(t, os.WriteFile(damaged.Path, bad, 0o600))
			again, err := journal.Open(damaged)
			require.NoError(t, err, "page %d", at/page)
			require.NoError(t, again.Begin(t.Context(), intent("new")), "page %d", at/page)
			require.NoError(t, again.Close())
		}
	}
}

func TestSettledEffectsAreKeptUpToANumberAndAnAge(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	m := clocktest.New(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	cfg.Clock, cfg.Keep, cfg.KeepFor = m, 3, time.Hour
	j := open(t, cfg)
	for i := range 6 {
		id := fmt.Sprintf("%02d", i)
		require.NoError(t, j.Begin(t.Context(), intent(id)))
		if i > 0 {
			j.Settle(id, effect.Succeeded, "", 200)
		}
	}
	require.NoError(t, j.Begin(t.Context(), intent("10")))
	require.Len(t, j.List(journal.Filter{State: effect.Succeeded}), 3)
	m.Advance(2 * time.Hour)
	require.NoError(t, j.Begin(t.Context(), intent("11")))
	require.Empty(t, j.List(journal.Filter{State: effect.Succeeded}))
	_, ok := j.Get("00")
	require.True(t, ok, "an effect that is not settled is always kept")
}

func BenchmarkBegin(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("group-commit/%d", writers), func(b *testing.B) {
			j := open(b, config(b))
			each(b, writers, func(id string) error { return j.Begin(context.Background(), intent(id)) })
		})
		b.Run(fmt.Sprintf("update-per-call/%d", writers), func(b *testing.B) {
			db := plain(b)
			each(b, writers, func(id string) error { return db.Update(put(id)) })
		})
		b.Run(fmt.Sprintf("bbolt-batch/%d", writers), func(b *testing.B) {
			db := plain(b)
			each(b, writers, func(id string) error { return db.Batch(put(id)) })
		})
	}
}

func plain(b *testing.B) *bbolt.DB {
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "plain.db"), 0o600, nil)
	require.NoError(b, err)
	b.Cleanup(func() { db.Close() })
	return db
}

func put(id string) func(*bbolt.Tx) error {
	return func(tx *bbolt.Tx) error {
		bucket, err := tx.CreateBucketIfNotExists([]byte("effects"))
		if err != nil {
			return err
		}
		return bucket.Put([]byte(id), make([]byte, 300))
	}
}

// each spreads b.N calls over the writers.
func each(b *testing.B, writers int, call func(id string) error) {
	b.ResetTimer()
	ids := make(chan string, writers)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for id := range ids {
				if err := call(id); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range b.N {
		ids <- fmt.Sprintf("%012d", i)
	}
	close(ids)
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "intents/s")
}
