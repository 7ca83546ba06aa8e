package journal_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	bbolterrors "go.etcd.io/bbolt/errors"

	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/sidecar/journal"
)

// TestAFileThatAnotherProcessHasIsLeftAlone: only damage sets a file aside.
func TestAFileThatAnotherProcessHasIsLeftAlone(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	j := open(t, cfg)
	require.NoError(t, j.Begin(t.Context(), intent("01")))
	_, err := journal.Open(cfg)
	require.ErrorIs(t, err, bbolterrors.ErrTimeout)
	files, err := filepath.Glob(cfg.Path + "*")
	require.NoError(t, err)
	require.Equal(t, []string{cfg.Path}, files)
	require.NoError(t, j.Begin(t.Context(), intent("02")))
}

// TestI7_RefusalsPushNoOutcomeOut: a stale holder that tries again and again
// must not make the journal forget what was executed.
func TestI7_RefusalsPushNoOutcomeOut(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Keep, cfg.Refusals = 5, 3
	j := open(t, cfg)
	require.NoError(t, j.Begin(t.Context(), intent("01")))
	j.Settle("01", effect.Succeeded, "", 201)
	for i := range 50 {
		j.Refuse(intent(fmt.Sprintf("1%02d", i)), "lost")
		require.NoError(t, j.Flush(t.Context()))
	}
	e, ok := j.Find("acme/environment:prod", "git", "key-01")
	require.True(t, ok)
	require.Equal(t, 201, e.Status)
	require.LessOrEqual(t, len(j.List(journal.Filter{State: effect.Failed})), 4)
}

// TestI7_AFailedOutcomeIsAnOutcomeAfterARestart: what the provider refused was
// an execution of its key; what never left was not.
func TestI7_AFailedOutcomeIsAnOutcomeAfterARestart(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	j := open(t, cfg)
	require.NoError(t, j.Begin(t.Context(), intent("01")))
	j.Settle("01", effect.Failed, "refused by the provider", 422)
	j.Refuse(intent("02"), "uncertain")
	require.NoError(t, j.Close())
	again := open(t, cfg)
	e, ok := again.Find("acme/environment:prod", "git", "key-01")
	require.True(t, ok)
	require.Equal(t, 422, e.Status)
	_, ok = again.Find("acme/environment:prod", "git", "key-02")
	require.False(t, ok)
	require.Len(t, again.List(journal.Filter{State: effect.Failed}), 2)
}

// TestFlushWaitsForTheCommitThatRuns: an outcome that the writer has taken is
// not on disk yet.
func TestFlushWaitsForTheCommitThatRuns(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	hold := false
	cfg.Commit = func(commit func() error) error {
		mu.Lock()
		held := hold
		hold = false
		mu.Unlock()
		if held {
			close(entered)
			<-leave
		}
		return commit()
	}
	j := open(t, cfg)
	require.NoError(t, j.Begin(t.Context(), intent("01")))
	mu.Lock()
	hold = true
	mu.Unlock()
	j.Settle("01", effect.Succeeded, "", 200)
	<-entered // by the ticker: nothing else is written
	flushed := make(chan error, 1)
	go func() { flushed <- j.Flush(t.Context()) }()
	select {
	case err := <-flushed:
		t.Fatalf("flushed while the commit runs: %v", err)
	default:
	}
	close(leave)
	require.NoError(t, <-flushed)
	require.NoError(t, j.Close())
	require.ErrorIs(t, j.Flush(t.Context()), journal.ErrClosed)
	require.ErrorIs(t, j.Begin(t.Context(), intent("02")), journal.ErrClosed)
	require.NoError(t, j.Close(), "closing twice is no error")
}
