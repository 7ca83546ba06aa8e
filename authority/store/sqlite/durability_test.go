package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/authority/store/sqlite"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

const (
	childPath   = "FORGEYARD_TEST_SQLITE_PATH"
	childMemory = "FORGEYARD_TEST_SQLITE_MEMORY"
)

// TestMain lets the test binary be the process that is killed.
func TestMain(m *testing.M) {
	if os.Getenv(childPath) != "" {
		if err := writeForEver(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// writeForEver raises one scope's epoch and prints what was acknowledged.
func writeForEver() error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Config{Path: os.Getenv(childPath), MemoryPath: os.Getenv(childMemory), Clock: clock.System(), MaxTTL: time.Minute})
	if err != nil {
		return err
	}
	if _, err := s.Enlist(ctx, store.Incarnation{ID: "child", Live: time.Second}); err != nil {
		return err
	}
	for {
		e, err := raise(ctx, s)
		if err != nil {
			return err
		}
		fmt.Println(e)
	}
}

func raise(ctx context.Context, s store.Store) (epoch.Epoch, error) {
	sc, err := scope.Parse("acme/environment:prod")
	if err != nil {
		return 0, err
	}
	var got epoch.Epoch
	err = s.Transact(ctx, store.Batch{Scopes: []scope.Scope{sc}}, func(l store.Loaded) (store.Changes, error) {
		rec := l.Scopes[sc.ID()]
		next, err := epoch.Next(rec.Epoch, l.Generation)
		rec.Epoch, got = next, next
		return store.Changes{Scopes: []lease.Record{rec}}, err
	})
	return got, err
}

// TestI11_NothingAcknowledgedIsLostByKill9 kills a writing process again and
// again: 8 rounds, 60 with LONG=1.
func TestI11_NothingAcknowledgedIsLostByKill9(t *testing.T) {
	t.Parallel()
	rounds := 8
	if os.Getenv("LONG") == "1" {
		rounds = 60
	}
	dir, memory := t.TempDir(), filepath.Join(t.TempDir(), "memory.json")
	path := filepath.Join(dir, "authority.db")
	var last epoch.Epoch
	total := 0
	for round := range rounds {
		acknowledged := killAfter(t, path, memory, 5+round%17)
		for _, e := range acknowledged {
			require.Greater(t, e, last, "round %d: an epoch was issued twice", round)
			last = e
		}
		total += len(acknowledged)
		s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, MemoryPath: memory, Clock: clock.System(), MaxTTL: time.Minute})
		require.NoError(t, err)
		sc, err := scope.Parse("acme/environment:prod")
		require.NoError(t, err)
		v, err := s.Scope(t.Context(), sc)
		require.NoError(t, err)
		require.GreaterOrEqual(t, v.Record.Epoch, last, "round %d: an acknowledged epoch was lost", round)
		last = v.Record.Epoch
		require.NoError(t, s.Close())
	}
	t.Logf("%d rounds of kill -9, %d acknowledged commits, none lost", rounds, total)
}

// killAfter runs the writer until n commits were acknowledged, kills it, and
// returns every acknowledgement that it printed.
func killAfter(t *testing.T, path, memory string, n int) []epoch.Epoch {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childPath+"="+path, childMemory+"="+memory)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var got []epoch.Epoch
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		v, err := strconv.ParseUint(strings.TrimSpace(lines.Text()), 10, 64)
		require.NoError(t, err)
		got = append(got, epoch.Epoch(v))
		if len(got) == n {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	require.Error(t, cmd.Wait())
	require.GreaterOrEqual(t, len(got), n)
	return got
}

// TestFC99_AFileThatWasPutBackIsNoticed restores an old copy of the file: the
// outside memory outdoes it, and no token is issued twice (DESIGN 5.6).
//
// Not parallel: a process that another test forks holds a copy of the lock
// until it execs.
func TestFC99_AFileThatWasPutBackIsNoticed(t *testing.T) {
	cfg := config(t)
	s, err := sqlite.Open(t.Context(), cfg)
	require.NoError(t, err)
	first, err := s.Enlist(t.Context(), store.Incarnation{ID: "I1"})
	require.NoError(t, err)
	_, err = raise(t.Context(), s)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	old, err := os.ReadFile(cfg.Path)
	require.NoError(t, err)

	s, err = sqlite.Open(t.Context(), cfg)
	require.NoError(t, err)
	second, err := s.Enlist(t.Context(), store.Incarnation{ID: "I2"})
	require.NoError(t, err)
	require.Greater(t, second.Generation, first.Generation)
	lost, err := raise(t.Context(), s)
	require.NoError(t, err)
	require.NoError(t, s.Close())

	var tokens []epoch.Epoch
	for i := range 2 { // the same copy, twice
		for _, suffix := range []string{"", "-wal", "-shm"} {
			os.Remove(cfg.Path + suffix)
		}
		require.NoError(t, os.WriteFile(cfg.Path, old, 0o600))
		s, err = sqlite.Open(t.Context(), cfg)
		require.NoError(t, err)
		st, err := s.Enlist(t.Context(), store.Incarnation{ID: fmt.Sprintf("I%d", 3+i)})
		require.NoError(t, err)
		require.Greater(t, st.Generation, second.Generation)
		e, err := raise(t.Context(), s)
		require.NoError(t, err)
		require.Greater(t, e, lost, "a token that the lost history had issued")
		require.NotContains(t, tokens, e)
		tokens = append(tokens, e)
		require.NoError(t, s.Close())
	}
}

func TestASecondProcessIsRefusedClearly(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	s, err := sqlite.Open(t.Context(), cfg)
	require.NoError(t, err)
	defer s.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childPath+"="+cfg.Path, childMemory+"="+cfg.MemoryPath)
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "in use by another process")
	require.Contains(t, string(out), cfg.Path)
}

func TestConfigNamesTheValue(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.MemoryPath = filepath.Join(filepath.Dir(cfg.Path), "memory.json")
	_, err := sqlite.Open(t.Context(), cfg)
	require.ErrorContains(t, err, cfg.MemoryPath)
	require.ErrorContains(t, err, "another directory")
}
