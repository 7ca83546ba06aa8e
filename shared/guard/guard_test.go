package guard_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/forgeyard/concurrency/shared/guard"
	"github.com/forgeyard/concurrency/shared/scope"
)

func key(t testing.TB, slot uint32) guard.Key {
	t.Helper()
	s, err := scope.Parse("acme/environment:prod")
	require.NoError(t, err)
	return guard.Key{Scope: s, Slot: slot}
}

// eachMarks runs a test over both ways to keep marks; reopen is what a restart
// does.
func eachMarks(t *testing.T, run func(t *testing.T, marks guard.Marks, reopen func() guard.Marks)) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		m := guard.NewMemory()
		run(t, m, func() guard.Marks { return m })
	})
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "marks.db")
		f, err := guard.Open(path)
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		run(t, f, func() guard.Marks {
			require.NoError(t, f.Close())
			f, err = guard.Open(path)
			require.NoError(t, err)
			return f
		})
	})
}

func nop() error { return nil }

func TestI3_ALowerTokenIsRefusedAfterARestartToo(t *testing.T) {
	t.Parallel()
	eachMarks(t, func(t *testing.T, marks guard.Marks, reopen func() guard.Marks) {
		g, k := guard.New(marks), key(t, 0)
		require.NoError(t, g.Do(t.Context(), k, guard.Mark{Epoch: 7, Lease: "A"}, nop))
		require.NoError(t, g.Do(t.Context(), k, guard.Mark{Epoch: 7, Lease: "A"}, nop), "one lease writes more than once")
		require.NoError(t, g.Do(t.Context(), k, guard.Mark{Epoch: 9, Lease: "B"}, nop))
		g = guard.New(reopen())
		err := g.Do(t.Context(), k, guard.Mark{Epoch: 7, Lease: "A"}, func() error { t.Error("written"); return nil })
		var stale *guard.StaleError
		require.ErrorAs(t, err, &stale)
		require.EqualValues(t, 9, stale.Seen)
		require.NoError(t, g.Do(t.Context(), k, guard.Mark{Epoch: 9, Lease: "B"}, nop))
	})
}

func TestFC05_AnEqualTokenOfAnotherLeaseIsRefused(t *testing.T) {
	t.Parallel()
	eachMarks(t, func(t *testing.T, marks guard.Marks, _ func() guard.Marks) {
		g, k := guard.New(marks), key(t, 0)
		require.NoError(t, g.Do(t.Context(), k, guard.Mark{Epoch: 7, Lease: "A"}, nop))
		var conflict *guard.ConflictError
		require.ErrorAs(t, g.Do(t.Context(), k, guard.Mark{Epoch: 7, Lease: "B"}, nop), &conflict)
	})
}

func TestFC105_SlotsOfACapacityScopeAreApart(t *testing.T) {
	t.Parallel()
	g := guard.New(guard.NewMemory())
	require.NoError(t, g.Do(t.Context(), key(t, 1), guard.Mark{Epoch: 9, Lease: "B"}, nop))
	require.NoError(t, g.Do(t.Context(), key(t, 2), guard.Mark{Epoch: 8, Lease: "A"}, nop), "the older of two live permits has another slot")
}

// TestI3_ASlowOldWriteCannotLandAfterANewOne: the newer holder waits for the
// write that was admitted before it, instead of overtaking it.
func TestI3_ASlowOldWriteCannotLandAfterANewOne(t *testing.T) {
	t.Parallel()
	g, k := guard.New(guard.NewMemory()), key(t, 0)
	entered, leave := make(chan struct{}), make(chan struct{})
	var order []string
	var wg sync.WaitGroup
	wg.Go(func() {
		err := g.Do(t.Context(), k, guard.Mark{Epoch: 7, Lease: "A"}, func() error {
			close(entered)
			<-leave
			order = append(order, "old")
			return nil
		})
		require.NoError(t, err)
	})
	<-entered
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, g.Do(cancelled, k, guard.Mark{Epoch: 9, Lease: "B"}, nop), context.Canceled, "it waits")
	wg.Go(func() {
		err := g.Do(t.Context(), k, guard.Mark{Epoch: 9, Lease: "B"}, func() error {
			order = append(order, "new")
			return nil
		})
		require.NoError(t, err)
	})
	close(leave)
	wg.Wait()
	require.Equal(t, []string{"old", "new"}, order)
}

// failing marks cannot be stored.
type failing struct{ *guard.Memory }

func (failing) Store(guard.Key, guard.Mark) error { return errors.New("no space left on device") }

func TestI3_AHigherTokenIsDurableBeforeItsWriteBegins(t *testing.T) {
	t.Parallel()
	g := guard.New(failing{guard.NewMemory()})
	err := g.Do(t.Context(), key(t, 0), guard.Mark{Epoch: 7, Lease: "A"}, func() error { t.Error("written"); return nil })
	require.ErrorContains(t, err, "no space left")
}

func TestCheckTxIsPartOfTheCallersTransaction(t *testing.T) {
	t.Parallel()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "own.db"), 0o600, nil)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	do := func(m guard.Mark, then error) error {
		return db.Update(func(tx *bbolt.Tx) error {
			if err := guard.CheckTx(tx, key(t, 0), m); err != nil {
				return err
			}
			return then
		})
	}
	rolledBack := errors.New("the write failed")
	require.ErrorIs(t, do(guard.Mark{Epoch: 9, Lease: "B"}, rolledBack), rolledBack)
	require.NoError(t, do(guard.Mark{Epoch: 7, Lease: "A"}, nil), "the mark was rolled back with its write")
	require.NoError(t, do(guard.Mark{Epoch: 9, Lease: "B"}, nil))
	var stale *guard.StaleError
	require.ErrorAs(t, do(guard.Mark{Epoch: 7, Lease: "A"}, nil), &stale)
}

func TestHandler(t *testing.T) {
	t.Parallel()
	var conflicts []error
	writes := 0
	h := guard.Handler(guard.New(guard.NewMemory()), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { writes++ }),
		func(err error) { conflicts = append(conflicts, err) })
	for i, tc := range []struct {
		method, token, scope, lease string
		status                      int
		code                        string
	}{
		{"PUT", "7", "acme/environment:prod", "A", 200, ""},
		{"DELETE", "9", "acme/environment:prod", "B", 200, ""},
		{"PUT", "7", "acme/environment:prod", "A", 412, "stale-epoch"},
		{"DELETE", "7", "acme/environment:prod", "A", 412, "stale-epoch"},
		{"PUT", "7", "acme/environment:staging", "A", 200, ""},
		{"PUT", "9", "acme/environment:prod", "C", 412, "epoch-conflict"},
		{"PUT", "", "acme/environment:prod", "B", 428, "no-token"},
		{"PUT", "-1", "acme/environment:prod", "B", 400, "Fencing-Token"},
		{"PUT", "0", "acme/environment:prod", "B", 400, "Fencing-Token"},
		{"PUT", "9", "prod", "B", 400, "Fencing-Scope"},
		{"PUT", "9", "", "B", 400, "Fencing-Scope"},
		{"PUT", "9", "acme/environment:prod", "", 400, "Fencing-Lease"},
		{"GET", "", "", "", 200, ""},
	} {
		r := httptest.NewRequest(tc.method, "/", nil)
		for name, v := range map[string]string{guard.HeaderToken: tc.token, guard.HeaderScope: tc.scope, guard.HeaderLease: tc.lease} {
			if v != "" {
				r.Header.Set(name, v)
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, tc.status, w.Code, "%d: %s", i, w.Body)
		require.Contains(t, w.Body.String(), tc.code, "%d", i)
	}
	require.Equal(t, 4, writes)
	require.Len(t, conflicts, 1)
	twice := httptest.NewRequest("PUT", "/", nil)
	twice.Header[guard.HeaderToken] = []string{"9", "10"}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, twice)
	require.Equal(t, 400, w.Code)
	require.Contains(t, w.Body.String(), "stands 2 times")
}
