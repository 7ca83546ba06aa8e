package scenario_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/e2e/cluster"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/sidecar/client"
)

const guarded = "acme/merge-target:main" // what acquire asks for

// reconciling is the policy of the kind: an unclean end blocks the scope.
func reconciling(t *testing.T, rules ...any) *bench {
	t.Helper()
	return serve(t, cluster.Serving{
		Policy: map[string]any{"version": 1, "rules": rules}, Timing: map[string]any{"sweep": "200ms", "sweep_grace": "500ms"},
	})
}

// mute answers nothing on /hang, and everything else at once.
type mute struct {
	hung   chan struct{}
	answer chan struct{} // closed: it answers after all
	over   chan struct{}
}

func serveMute(t *testing.T) (*mute, string) {
	t.Helper()
	m := &mute{hung: make(chan struct{}, 16), answer: make(chan struct{}), over: make(chan struct{})}
	srv := httptest.NewServer(m)
	t.Cleanup(func() { close(m.over); srv.Close() })
	return m, srv.URL
}

// ServeHTTP implements http.Handler.
func (m *mute) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/hang") {
		m.hung <- struct{}{}
		select {
		case <-m.answer:
		case <-m.over:
			return
		case <-r.Context().Done():
			return
		}
	}
	w.WriteHeader(http.StatusCreated)
}

// tenure is a node that works on the scope, and one that waits for it.
type tenure struct {
	*bench
	worker, other *cluster.Sidecar
	provider      *mute
	held          *pb.HoldEvent
	client        *client.Client // of the other node
}

func newTenure(t *testing.T, rules ...any) *tenure {
	t.Helper()
	b := reconciling(t, rules...)
	m, url := serveMute(t)
	providers := []cluster.Provider{{Name: "store", URL: url}}
	w := &tenure{bench: b, provider: m}
	w.worker = b.sidecar(cluster.SidecarConfig{Node: "node-a", Session: quick(), Providers: providers})
	w.other = b.sidecar(cluster.SidecarConfig{Node: "node-b", Session: quick(), Providers: providers})
	var err error
	w.client, err = client.Dial(w.other.Socket)
	require.NoError(t, err)
	t.Cleanup(func() { w.client.Close() })
	w.held = acquire(t, w.worker, "deployer")
	return w
}

// call sends one mutation under the worker's hold and returns the status, or 0.
func (w *tenure) call(path string) int {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPut, w.held.GetBaseUrls()["store"]+path, strings.NewReader("plan"))
	require.NoError(w.t, err)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0 // the sidecar was killed
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// outcomesOnDisk waits until the worker's journal has written what rides along:
// it has been quiet for several of its flushes.
func (w *tenure) outcomesOnDisk() {
	w.t.Helper()
	path := filepath.Join(w.opts.Dir, "node-a", "journal.db")
	w.until("the journal is not quiet", func() bool {
		info, err := os.Stat(path)
		require.NoError(w.t, err)
		return time.Since(info.ModTime()) > 700*time.Millisecond
	})
}

// until polls.
func (w *tenure) until(problem string, cond func() bool) {
	w.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(20 * time.Second); !cond(); {
		select {
		case <-tick.C:
		case <-end:
			require.FailNow(w.t, problem)
		}
	}
}

// evidence asks the other node's sidecar.
func (w *tenure) evidence() client.Evidence {
	w.t.Helper()
	s, err := scope.Parse(guarded)
	require.NoError(w.t, err)
	e, err := w.client.Evidence(w.t.Context(), s)
	require.NoError(w.t, err)
	return e
}

// untilEvidence waits until the authority has what want describes.
func (w *tenure) untilEvidence(problem string, want func(client.Evidence) bool) client.Evidence {
	w.t.Helper()
	var last client.Evidence
	w.until(problem, func() bool { last = w.evidence(); return want(last) })
	return last
}

func blocked(e client.Evidence) bool { return e.Record.State == lease.Blocked }
func open(e client.Evidence) bool    { return e.Record.State == lease.Open }

// TestI6_AKilledNodeThatReturnsSettlesByItself: the end of the lease blocks the
// scope; the node comes back, knows of every call that it was answered, and the
// scope reopens without a person.
func TestI6_AKilledNodeThatReturnsSettlesByItself(t *testing.T) {
	t.Parallel()
	w := newTenure(t)
	require.Equal(t, http.StatusCreated, w.call("/plans/prod"))
	w.outcomesOnDisk()
	require.NoError(t, w.worker.Kill())
	left := w.untilEvidence("it was not blocked", blocked)
	require.Len(t, left.Unsettled, 1)
	require.False(t, left.Complete)
	require.NoError(t, w.worker.Restart(t.Context()))
	w.untilEvidence("it did not reopen", open)
	next := acquire(t, w.other, "successor")
	require.Greater(t, next.GetEpoch(), w.held.GetEpoch())
}

// TestI6_AnUnknownEffectKeepsTheScopeBlockedUntilItIsResolved: the node dies in
// the middle of a call. It returns and says what it does not know; a controller
// claims the scope, looks, resolves and reopens it.
func TestI6_AnUnknownEffectKeepsTheScopeBlockedUntilItIsResolved(t *testing.T) {
	t.Parallel()
	w := newTenure(t)
	go w.call("/plans/hang")
	<-w.provider.hung
	w.untilEvidence("the open effect was not reported", func(e client.Evidence) bool { return len(e.Effects) == 1 })
	require.NoError(t, w.worker.Kill())
	w.untilEvidence("it was not blocked", blocked)
	require.NoError(t, w.worker.Restart(t.Context()))
	left := w.untilEvidence("the node did not account for it", func(e client.Evidence) bool { return e.Complete })
	require.True(t, blocked(left))
	require.Equal(t, 1, left.Unsettled[0].Unknown)
	require.Len(t, left.Effects, 1)
	require.EqualValues(t, "unknown", left.Effects[0].Effect.State)

	s, err := scope.Parse(guarded)
	require.NoError(t, err)
	var refused *client.RefusedError
	_, err = w.client.Acquire(t.Context(), s)
	require.ErrorAs(t, err, &refused, "work is not admitted")
	require.Equal(t, "blocked", refused.Reason)
	h, err := w.client.Acquire(t.Context(), s, client.ToReconcile())
	require.NoError(t, err)
	require.Greater(t, uint64(h.Token()), w.held.GetEpoch())
	require.ErrorAs(t, h.Reopen(t.Context(), "all is well"), &refused, "nobody has looked at the effect")
	require.NoError(t, h.Resolve(t.Context(), lease.Resolution{Effect: left.Effects[0].Effect.ID, Outcome: "failed", Seen: "no plan is stored"}))
	require.NoError(t, h.Reopen(t.Context(), "nothing of the plan is there"))
	_, err = h.Release(t.Context())
	require.NoError(t, err)
	require.True(t, open(w.evidence()))
	acquire(t, w.other, "successor")
	local := cluster.NewLocal(w.worker.Socket)
	w.until("its node did not learn of it", func() bool {
		known, err := local.Effects(t.Context())
		return err == nil && len(known.GetEffects()) > 0 && known.GetEffects()[0].GetState() == "reconciled"
	})
}

// TestI6_ANodeWithAnotherJournalAccountsForNothing: what it does not know it
// must not call settled.
func TestI6_ANodeWithAnotherJournalAccountsForNothing(t *testing.T) {
	t.Parallel()
	w := newTenure(t)
	require.Equal(t, http.StatusCreated, w.call("/plans/prod"))
	w.outcomesOnDisk()
	require.NoError(t, w.worker.Kill())
	w.untilEvidence("it was not blocked", blocked)
	require.NoError(t, os.Remove(filepath.Join(w.opts.Dir, "node-a", "journal.db")))
	require.NoError(t, w.worker.Restart(t.Context()))
	local := cluster.NewLocal(w.worker.Socket)
	w.until("the node did not come back", func() bool {
		st, err := local.Status(t.Context())
		return err == nil && st.GetState() == "confirmed"
	})
	patrolled := time.Now().Add(2 * time.Second) // several looks of the returned node
	w.until("time goes on", func() bool {
		left := w.evidence()
		require.True(t, blocked(left))
		require.False(t, left.Complete)
		return time.Now().After(patrolled)
	})
}

// perEffect is the rule of scopes that want safety against pauses between the
// last check and the send.
func perEffect() map[string]any {
	return map[string]any{"match": "acme/*", "why": "scenarios", "on_unclean_end": "reconcile", "confirm": "per-effect"}
}

// TestI6_AConfirmedEffectIsEvidenceBeforeTheProviderSeesIt, so that a node that
// stops at that moment leaves complete evidence.
func TestI6_AConfirmedEffectIsEvidenceBeforeTheProviderSeesIt(t *testing.T) {
	t.Parallel()
	w := newTenure(t, perEffect())
	require.Equal(t, http.StatusCreated, w.call("/plans/prod"))
	go w.call("/plans/hang")
	<-w.provider.hung
	left := w.evidence() // no heartbeat is waited for
	require.Equal(t, "PUT /plans/hang", left.Effects[0].Effect.Operation)
	require.EqualValues(t, "started", left.Effects[0].Effect.State)
	require.NoError(t, w.worker.Pause())
	left = w.untilEvidence("it was not blocked", blocked)
	require.True(t, left.Complete, "nothing can have left that is not here")
	require.NoError(t, w.worker.Resume())
	left = w.untilEvidence("the node did not account for it", func(e client.Evidence) bool { return len(e.Unsettled) == 1 && e.Unsettled[0].Accounted })
	require.Equal(t, 1, left.Unsettled[0].Unknown)
	require.True(t, blocked(left))
}

// TestI4_WithoutTheAuthorityAConfirmedScopeSendsNothing, although its lease
// still lasts.
func TestI4_WithoutTheAuthorityAConfirmedScopeSendsNothing(t *testing.T) {
	t.Parallel()
	w := newTenure(t, perEffect())
	require.Equal(t, http.StatusCreated, w.call("/plans/prod"))
	require.NoError(t, w.authority.Pause())
	require.Equal(t, http.StatusLocked, w.call("/plans/prod"))
	require.NoError(t, w.authority.Resume())
}

// TestFC11_NobodyIsGrantedWhileGuardedWorkRuns: the holder releases in the
// middle of a call; the scope is somebody else's only after its answer.
func TestFC11_NobodyIsGrantedWhileGuardedWorkRuns(t *testing.T) {
	t.Parallel()
	w := newTenure(t)
	answered := make(chan int, 1)
	go func() { answered <- w.call("/plans/hang") }()
	<-w.provider.hung
	released := make(chan error, 1)
	go func() {
		_, err := cluster.NewLocal(w.worker.Socket).Release(t.Context(), w.held.GetHoldKey())
		released <- err
	}()
	w.until("it does not settle", func() bool { return w.call("/plans/prod") == http.StatusPreconditionFailed })
	s, err := scope.Parse(guarded)
	require.NoError(t, err)
	var busy *client.BusyError
	_, err = w.client.Acquire(t.Context(), s)
	require.ErrorAs(t, err, &busy)
	require.Empty(t, released, "it is in flight")
	close(w.provider.answer)
	require.Equal(t, http.StatusCreated, <-answered)
	require.NoError(t, <-released)
	_, err = w.client.Acquire(t.Context(), s)
	require.NoError(t, err, "the end was clean: nothing is to be reconciled")
}
