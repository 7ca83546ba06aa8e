package chaos_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
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
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

// grant is one acknowledged grant.
type grant struct {
	scope, lease string
	epoch        uint64
}

// killing is everything that can be killed, and what was seen.
type killing struct {
	t         *testing.T
	rng       *rand.Rand
	opts      cluster.Options
	authority *cluster.Authority
	sidecars  []*cluster.Sidecar
	postgres  *pgtest.Server // nil on the embedded store
	provider  *provider.Provider
	grants    []grant
	kills     map[string]int
	writes    int
}

// I11, I2, I3: kill -9 of authority, sidecar, controller and Postgres at
// random points. No acknowledged grant is lost, no epoch is issued twice, and
// no token lower than one it has seen even reaches the provider.
func TestI11_KilledAtRandomPointsNothingAcknowledgedIsLost(t *testing.T) {
	for _, store := range []string{"sqlite", "postgres"} {
		t.Run(store, func(t *testing.T) {
			w := newKilling(t, store)
			operations := 25
			if os.Getenv("LONG") != "" {
				operations = 200
			}
			for range operations {
				restored := w.maybeKill()
				w.operate()
				<-restored
			}
			w.judge()
			t.Logf("%d operations: %d grants, %d writes, kills %v", operations, len(w.grants), w.writes, w.kills)
		})
	}
}

func newKilling(t *testing.T, store string) *killing {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("seed %d", seed)
	bin, err := cluster.Programs(t.TempDir())
	require.NoError(t, err)
	dir, err := os.MkdirTemp("/tmp", "fy-")
	require.NoError(t, err)
	w := &killing{t: t, rng: rand.New(rand.NewPCG(seed, 0)), opts: cluster.Options{Bin: bin, Dir: dir}, provider: provider.New(), kills: map[string]int{}}
	serving := cluster.Serving{Policy: map[string]any{"version": 1, "rules": []any{map[string]any{"match": "acme/*", "on_unclean_end": "free"}}}}
	if store == "postgres" {
		w.postgres, err = pgtest.New(t.Context(), pgtest.Options{})
		require.NoError(t, err)
		t.Cleanup(w.postgres.Stop)
		serving.PostgresURL = w.postgres.Database(t)
	}
	w.authority, err = cluster.ServeAuthority(t.Context(), w.opts, serving)
	require.NoError(t, err)
	srv := httptest.NewServer(w.provider)
	t.Cleanup(srv.Close)
	session := cluster.Session{TTL: 2 * time.Second, Interval: 300 * time.Millisecond, UncertainAfter: 800 * time.Millisecond, KillGrace: 300 * time.Millisecond, Margin: 600 * time.Millisecond}
	for _, node := range []string{"node-a", "node-b"} {
		s, err := cluster.StartSidecar(t.Context(), w.opts, w.authority, cluster.SidecarConfig{
			Node: node, Session: session, Settle: time.Second, Providers: []cluster.Provider{{Name: "plans", URL: srv.URL}},
		})
		require.NoError(t, err)
		w.sidecars = append(w.sidecars, s)
	}
	t.Cleanup(w.close)
	return w
}

func (w *killing) close() {
	for _, s := range w.sidecars {
		s.Kill()
	}
	w.authority.Kill()
	if !w.t.Failed() {
		os.RemoveAll(w.opts.Dir)
	}
}

// maybeKill kills something after a random while, in one of five operations;
// the channel is closed when it runs again.
func (w *killing) maybeKill() <-chan struct{} {
	restored := make(chan struct{})
	victims := []string{"authority", "node-a", "node-b", "postgres"}
	victim, roll, delay := victims[w.rng.IntN(len(victims))], w.rng.IntN(5), time.Duration(w.rng.IntN(30_000))*time.Microsecond
	if roll != 0 || (victim == "postgres" && w.postgres == nil) {
		close(restored)
		return restored
	}
	w.kills[victim]++
	timer := time.NewTimer(delay)
	go func() {
		defer close(restored)
		<-timer.C
		if err := w.kill(victim); err != nil {
			w.t.Errorf("kill %s: %v", victim, err)
		}
	}()
	return restored
}

func (w *killing) kill(victim string) error {
	ctx := context.Background()
	switch victim {
	case "authority":
		w.authority.Kill()
		return w.authority.Restart(ctx)
	case "postgres":
		w.postgres.Kill()
		return w.postgres.Start(ctx)
	default:
		s := w.sidecars[victim[len(victim)-1]-'a']
		s.Kill()
		return s.Restart(ctx)
	}
}

// operate takes a scope as a controller of its own process, writes, and gives
// it back, or is killed before it does. What fails is no promise; what is
// acknowledged is written down.
func (w *killing) operate() {
	s := w.sidecars[w.rng.IntN(len(w.sidecars))]
	scope := "acme/environment:e" + strconv.Itoa(w.rng.IntN(3))
	dies, local := w.rng.IntN(4) == 0, cluster.NewLocal(s.Socket)
	controller := exec.Command("sleep", "600")
	require.NoError(w.t, controller.Start())
	defer func() { controller.Process.Kill(); controller.Wait() }()
	ctx, cancel := context.WithTimeout(w.t.Context(), 15*time.Second)
	defer cancel()
	hold, err := local.Acquire(ctx, &pb.HoldRequest{Scope: scope, Pid: int32(controller.Process.Pid), Wait: durationpb.New(8 * time.Second)})
	if err != nil {
		return
	}
	w.grants = append(w.grants, grant{scope: scope, lease: hold.GetLease(), epoch: hold.GetEpoch()})
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, hold.GetBaseUrls()["plans"]+"/plans/x", strings.NewReader(hold.GetLease()))
	require.NoError(w.t, err)
	if resp, err := http.DefaultClient.Do(req); err == nil {
		resp.Body.Close()
		if resp.StatusCode == http.StatusNoContent {
			w.writes++
		}
	}
	if dies {
		w.kills["controller"]++
		return // killed with kill -9 while it holds
	}
	_, _ = local.Release(ctx, hold.GetHoldKey()) // may meet a dead sidecar: no promise
}

func (w *killing) judge() {
	t := w.t
	require.NotEmpty(t, w.grants)
	require.NotZero(t, w.writes)
	require.NoError(t, provider.Judge(w.provider.Log(), true))
	highest, leases := map[string]uint64{}, map[string]bool{}
	for _, g := range w.grants {
		require.Greater(t, g.epoch, highest[g.scope], "epoch of %s did not rise", g.scope)
		require.False(t, leases[g.lease], "lease %s was granted twice", g.lease)
		highest[g.scope], leases[g.lease] = g.epoch, true
	}
	cmd := exec.CommandContext(t.Context(), w.opts.Bin+"/forgeyard", "concurrency", "leases", "--ended", "-o", "json", "-c", w.authority.OperatorConfig)
	out, err := cmd.Output()
	require.NoError(t, err)
	list := &pb.ListLeasesResponse{}
	require.NoError(t, protojson.Unmarshal(out, list))
	kept := map[string]uint64{}
	for _, r := range list.GetLeases() {
		kept[r.GetLease().GetId()] = r.GetLease().GetEpoch()
	}
	for _, g := range w.grants {
		require.Equal(t, g.epoch, kept[g.lease], "acknowledged grant %s of %s is lost", g.lease, g.scope)
	}
}
