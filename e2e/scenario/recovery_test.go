package scenario_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/forgeyard/concurrency/authority/store/postgres/pgtest"
	"github.com/forgeyard/concurrency/e2e/cluster"
	"github.com/forgeyard/concurrency/e2e/provider"
	"github.com/forgeyard/concurrency/e2e/relay"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/guard"
)

// The longest session of these scenarios: nobody is granted within it after a
// cut of history.
const (
	longestTTL = 6 * time.Second
	shortDelay = 600 * time.Millisecond
)

// movable is an authority whose database can be replaced under it.
type movable struct {
	*bench
	db       *pgtest.Server
	name     string // of the database
	way      *relay.Relay
	provider *provider.Provider
	target   string
	a, b     *cluster.Sidecar
	tokens   map[string]map[uint64]bool // every epoch seen, by scope
}

func onMovableDatabase(t *testing.T, session cluster.Session) *movable {
	t.Helper()
	db, err := pgtest.New(t.Context(), pgtest.Options{})
	require.NoError(t, err)
	m := &movable{db: db, tokens: map[string]map[uint64]bool{}, provider: provider.New()}
	t.Cleanup(func() { m.db.Stop() })
	name, err := url.Parse(db.Database(lasting{t}))
	require.NoError(t, err)
	m.name = strings.TrimPrefix(name.Path, "/")
	m.way, err = relay.New(net.JoinHostPort("127.0.0.1", strconv.Itoa(db.Port)))
	require.NoError(t, err)
	t.Cleanup(m.way.Close)
	srv := httptest.NewServer(m.provider)
	t.Cleanup(srv.Close)
	m.target = srv.URL
	m.bench = serve(t, cluster.Serving{
		PostgresURL: "postgres://postgres@" + m.way.Addr + "/" + m.name + "?sslmode=disable",
		Policy:      map[string]any{"version": 1, "rules": []any{map[string]any{"match": "acme/environment:free-*", "on_unclean_end": "free"}}},
		Timing:      map[string]any{"max_ttl": longestTTL.String(), "lock_delay": shortDelay.String(), "interval": "1s", "sweep": "200ms", "sweep_grace": "500ms"},
	})
	providers := []cluster.Provider{{Name: "plans", URL: srv.URL}}
	m.a = m.sidecar(cluster.SidecarConfig{Node: "node-a", Session: session, Providers: providers, Settle: time.Second})
	m.b = m.sidecar(cluster.SidecarConfig{Node: "node-b", Session: session, Providers: providers, Settle: time.Second})
	return m
}

// lasting keeps a database from being dropped with the test: its server may be
// gone by then.
type lasting struct{ *testing.T }

// Cleanup implements testing.TB.
func (lasting) Cleanup(func()) {}

// moveTo makes another server the database; the former one must be gone.
func (m *movable) moveTo(next *pgtest.Server) {
	m.db.Stop()
	m.db = next
	m.way.Target(net.JoinHostPort("127.0.0.1", strconv.Itoa(next.Port)))
	m.way.Cut()
}

// take acquires a scope, writes under it, and demands a token that nobody had.
func (m *movable) take(s *cluster.Sidecar, scope string) *pb.HoldEvent {
	m.t.Helper()
	h, err := s.Local().Acquire(within(m.t, 40*time.Second), &pb.HoldRequest{Scope: scope, Detach: durationpb.New(time.Hour), Wait: durationpb.New(30 * time.Second)})
	require.NoError(m.t, err)
	if m.tokens[scope] == nil {
		m.tokens[scope] = map[uint64]bool{}
	}
	require.False(m.t, m.tokens[scope][h.GetEpoch()], "%s: token %d was issued twice", scope, h.GetEpoch())
	for e := range m.tokens[scope] {
		require.Greater(m.t, h.GetEpoch(), e)
	}
	m.tokens[scope][h.GetEpoch()] = true
	require.Equal(m.t, http.StatusNoContent, m.write(h))
	return h
}

func (m *movable) write(h *pb.HoldEvent) int {
	m.t.Helper()
	req, err := http.NewRequestWithContext(m.t.Context(), http.MethodPut, h.GetBaseUrls()["plans"]+"/plans/x", strings.NewReader(h.GetLease()))
	require.NoError(m.t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(m.t, err)
	resp.Body.Close()
	return resp.StatusCode
}

// leak sends a request with an old token past every sidecar.
func (m *movable) leak(h *pb.HoldEvent) int {
	m.t.Helper()
	req, err := http.NewRequestWithContext(m.t.Context(), http.MethodPut, m.target+"/plans/x", strings.NewReader("stale"))
	require.NoError(m.t, err)
	req.Header.Set(guard.HeaderToken, strconv.FormatUint(h.GetEpoch(), 10))
	req.Header.Set(guard.HeaderScope, h.GetScope())
	req.Header.Set(guard.HeaderLease, h.GetLease())
	resp, err := http.DefaultClient.Do(req)
	require.NoError(m.t, err)
	resp.Body.Close()
	return resp.StatusCode
}

func (m *movable) release(s *cluster.Sidecar, h *pb.HoldEvent) {
	m.t.Helper()
	_, err := s.Local().Release(m.t.Context(), h.GetHoldKey())
	require.NoError(m.t, err)
}

func (m *movable) forgeyard(args ...string) ([]byte, error) {
	return exec.CommandContext(context.WithoutCancel(m.t.Context()), m.opts.Bin+"/forgeyard", append(args, "-c", m.authority.OperatorConfig)...).CombinedOutput()
}

func (m *movable) generation() uint32 {
	m.t.Helper()
	out, err := m.forgeyard("concurrency", "status", "-o", "json")
	require.NoError(m.t, err, "%s", out)
	st := &pb.GetStatusResponse{}
	require.NoError(m.t, protojson.Unmarshal(out, st))
	return st.GetGeneration()
}

// blocked lists the scopes that are closed.
func (m *movable) blocked() map[string]bool {
	m.t.Helper()
	out, err := m.forgeyard("concurrency", "blocked", "-o", "json")
	require.NoError(m.t, err, "%s", out)
	list := &pb.ListBlockedResponse{}
	require.NoError(m.t, protojson.Unmarshal(out, list))
	closed := map[string]bool{}
	for _, s := range list.GetScopes() {
		closed[s.GetScope()] = true
	}
	return closed
}

// reopen looks at a scope and opens it.
func (m *movable) reopen(scope string) {
	m.t.Helper()
	require.Eventually(m.t, func() bool { // while nobody is granted anything, a person is not either
		_, err := m.forgeyard("concurrency", "reconcile", scope, "--reason", "the database was replaced")
		return err == nil
	}, 20*time.Second, 200*time.Millisecond)
	out, err := m.forgeyard("concurrency", "resolve", scope, "--reopen", "looked at the provider")
	require.NoError(m.t, err, "%s", out)
}

// cutHistory runs what makes the store forget, and proves what must hold after
// it: nobody acts for the longest ttl, every old token is refused, reconciling
// scopes are closed and reopen after they were resolved.
func (m *movable) cutHistory(known, forgotten *pb.HoldEvent, free string, replace func()) {
	t := m.t
	before := m.generation()
	replace()
	cut := time.Now()
	next := m.take(m.a, free)
	require.Greater(t, time.Since(cut), longestTTL, "granted inside the ttl of a holder that was forgotten")
	t.Logf("generation %d -> %d without anybody's doing; first grant %s after the cut (nobody before %s)", before, m.generation(), time.Since(cut).Round(time.Millisecond), longestTTL+shortDelay)
	require.Greater(t, m.generation(), before)
	require.Equal(t, uint64(m.generation()), next.GetEpoch()>>40)
	for _, old := range []*pb.HoldEvent{known, forgotten} {
		require.Equal(t, http.StatusPreconditionFailed, m.write(old), "the gate of the old holder")
		out, err := m.forgeyard("concurrency", "force-release", old.GetScope(), "--epoch", strconv.FormatUint(old.GetEpoch(), 10), "--reason", "stale")
		require.False(t, err == nil && strings.Contains(string(out), "draining"), "the authority took an old epoch: %s", out)
		require.True(t, m.blocked()[old.GetScope()], "%s is not closed: %v", old.GetScope(), m.blocked())
		m.reopen(old.GetScope())
		fresh := m.take(m.b, old.GetScope())
		require.Equal(t, http.StatusConflict, m.leak(old), "the guard refuses the old token")
		m.release(m.b, fresh)
	}
	m.release(m.a, next)
	require.NoError(t, provider.Judge(m.provider.Log(), false))
}

func TestFC51_LaggingStandbyIsPromoted(t *testing.T) {
	m := onMovableDatabase(t, quick())
	known := m.take(m.a, "acme/environment:known")
	standby, err := pgtest.New(t.Context(), pgtest.Options{Basebackup: m.db})
	require.NoError(t, err)
	standby.Kill() // it follows no more
	forgotten := m.take(m.b, "acme/environment:forgotten")
	lost := m.take(m.b, "acme/environment:free-1")
	require.NotEmpty(t, lost)
	m.cutHistory(known, forgotten, "acme/environment:free-1", func() {
		m.db.Kill()
		require.NoError(t, standby.Start(t.Context()))
		require.NoError(t, standby.Promote(t.Context()))
		m.moveTo(standby)
	})
}

func TestFC52_FC97_OldDumpIsRestoredTwice(t *testing.T) {
	m := onMovableDatabase(t, quick())
	m.release(m.a, m.take(m.a, "acme/environment:known")) // used before the dump
	dump, err := m.db.Dump(t.Context(), m.name)
	require.NoError(t, err)
	for range 2 { // the same dump
		known := m.take(m.a, "acme/environment:known")
		forgotten := m.take(m.b, "acme/environment:forgotten")
		lost := m.take(m.b, "acme/environment:free-1")
		require.NotEmpty(t, lost)
		m.cutHistory(known, forgotten, "acme/environment:free-1", func() {
			next, err := pgtest.New(t.Context(), pgtest.Options{})
			require.NoError(t, err)
			require.NoError(t, next.Restore(t.Context(), m.name, dump))
			m.db.Kill()
			m.moveTo(next)
		})
	}
	t.Logf("tokens %v", m.tokens)
}

func TestPlannedSwitchoverKeepsTheLeases(t *testing.T) {
	// The longest session: a promotion takes its time, and no lease may end by it.
	m := onMovableDatabase(t, cluster.Session{
		TTL: longestTTL, Interval: 300 * time.Millisecond, UncertainAfter: 2 * time.Second, KillGrace: 300 * time.Millisecond, Margin: 1200 * time.Millisecond,
	})
	held := m.take(m.a, "acme/environment:known")
	standby, err := pgtest.New(t.Context(), pgtest.Options{Basebackup: m.db})
	require.NoError(t, err)
	before := m.generation()
	config := m.opts.Dir + "/authority/authority.yaml"
	out, err := exec.CommandContext(t.Context(), m.opts.Bin+"/forgeyard-authority", "prepare-switchover", "-c", config).CombinedOutput()
	require.NoError(t, err, "%s", out)
	refused, err := m.forgeyard("concurrency", "status")
	require.NoError(t, err, "%s", refused)
	_, err = m.b.Local().Acquire(within(t, 5*time.Second), &pb.HoldRequest{Scope: "acme/environment:free-2", Detach: durationpb.New(time.Hour)})
	require.ErrorContains(t, err, "change hands", "nothing is granted while it is prepared")
	require.NoError(t, standby.CaughtUp(t.Context(), m.db))
	m.db.Kill()
	require.NoError(t, standby.Promote(t.Context()))
	m.moveTo(standby)
	next := m.take(m.b, "acme/environment:free-2")
	require.Greater(t, m.generation(), before)
	require.Equal(t, http.StatusNoContent, m.write(held), "the lease of before goes on")
	require.Empty(t, m.blocked())
	m.release(m.b, next)
	m.release(m.a, held)
}
