package scenario_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/e2e/cluster"
	"github.com/forgeyard/concurrency/e2e/provider"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/sidecar/client"
)

// An upgrade of a sidecar is its restart. Controllers write through a hold of
// each kind all the while: none is lost, no epoch changes, whether the former
// process was stopped or killed.
func TestFC104_ASidecarIsUpgradedUnderLoadAndNoHoldIsLost(t *testing.T) {
	t.Parallel()
	times := 3
	if os.Getenv("LONG") != "" {
		times = 20
	}
	for _, store := range []string{"sqlite", "postgres"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			u := upgradeOn(t, store)
			for i := range times {
				u.hang() // a call that does not end holds no upgrade up
				u.restart(u.sidecar.Stop)
				u.hang()
				u.restart(u.sidecar.Kill)
				require.False(t, t.Failed(), "round %d", i)
			}
			t.Logf("%d restarts", 2*times)
			u.judge()
		})
	}
}

// upgrade is one sidecar with its controllers.
type upgrade struct {
	t        *testing.T
	sidecar  *cluster.Sidecar
	provider *provider.Provider
	writers  []*writer
	urls     map[string]string // of the first controller
	stuck    chan struct{}     // a call that does not end has arrived
}

func upgradeOn(t *testing.T, store string) *upgrade {
	t.Helper()
	b := start(t, store)
	u := &upgrade{t: t, provider: provider.New(), stuck: make(chan struct{}, 1)}
	srv := httptest.NewServer(u.provider)
	t.Cleanup(srv.Close)
	stuck := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.stuck <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(stuck.Close)
	u.sidecar = b.sidecar(cluster.SidecarConfig{Node: "node-a", Session: patient(), Providers: []cluster.Provider{
		{Name: "plans", URL: srv.URL}, {Name: "stuck", URL: stuck.URL},
	}})
	u.load()
	return u
}

// hang leaves a call of the first controller in flight.
func (u *upgrade) hang() {
	t := u.t
	t.Helper()
	go call(u.urls["stuck"] + "/jobs")
	select {
	case <-u.stuck:
	case <-within(t, 20*time.Second).Done():
		require.FailNow(t, "the call does not arrive")
	}
}

// load lets a controller of each kind write from now on.
func (u *upgrade) load() {
	u.byPid()
	u.byStream()
	for _, w := range u.writers {
		w.start()
	}
}

// byPid is a controller without our library: what it got at first is all that
// it ever has.
func (u *upgrade) byPid() {
	t := u.t
	controller := exec.Command("sleep", "600")
	require.NoError(t, controller.Start())
	t.Cleanup(func() { controller.Process.Kill(); controller.Wait() })
	hold, err := u.sidecar.Local().Acquire(within(t, time.Minute), &pb.HoldRequest{Scope: "acme/environment:by-pid", Pid: int32(controller.Process.Pid)})
	require.NoError(t, err)
	require.Equal(t, "owned", hold.GetState())
	u.urls = hold.GetBaseUrls()
	u.writers = append(u.writers, &writer{
		t: t, name: "pid hold", epoch: hold.GetEpoch(), base: func() string { return hold.GetBaseUrls()["plans"] }, lost: func() error { return nil },
	})
}

func (u *upgrade) byStream() {
	t := u.t
	c, err := client.Dial(u.sidecar.Socket)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	s, err := scope.Parse("acme/environment:by-stream")
	require.NoError(t, err)
	hold, err := c.Acquire(within(t, time.Minute), s)
	require.NoError(t, err)
	u.writers = append(u.writers, &writer{
		t: t, name: "stream hold", epoch: uint64(hold.Token()), base: func() string { return hold.BaseURLs()["plans"] }, lost: func() error { return hold.Context().Err() },
	})
}

// restart replaces the process and waits for every controller to write again.
func (u *upgrade) restart(end func() error) {
	t := u.t
	t.Helper()
	require.NoError(t, end())
	require.NoError(t, u.sidecar.Restart(t.Context()))
	u.goesOn()
}

// goesOn waits for every controller to write, and looks at the holds.
func (u *upgrade) goesOn() {
	t := u.t
	t.Helper()
	for _, w := range u.writers {
		w.progress()
	}
	status, err := u.sidecar.Local().Status(t.Context())
	require.NoError(t, err)
	require.Len(t, status.GetHolds(), len(u.writers))
	for _, h := range status.GetHolds() {
		require.Equal(t, "owned", h.GetState(), "%s: %s", h.GetScope(), h.GetDetail())
	}
}

// judge looks at what arrived: each scope under one epoch only, and without a
// long gap.
func (u *upgrade) judge() {
	t := u.t
	t.Helper()
	for _, w := range u.writers {
		w.mu.Lock()
		t.Logf("%s: %d writes, %d refused meanwhile, longest gap %s", w.name, w.written, w.refused, w.gap.Round(time.Millisecond))
		require.Less(t, w.gap, patient().UncertainAfter)
		w.mu.Unlock()
	}
	log := u.provider.Log()
	require.NoError(t, provider.Judge(log, true))
	want := map[string]uint64{"acme/environment:by-pid": u.writers[0].epoch, "acme/environment:by-stream": u.writers[1].epoch}
	for _, e := range log {
		require.Equal(t, want[e.Scope], e.Token, e.Scope)
	}
}

// writer puts a plan every few milliseconds, as long as the test runs.
type writer struct {
	t     *testing.T
	name  string
	epoch uint64
	base  func() string
	lost  func() error

	mu      sync.Mutex
	written int
	refused int
	last    time.Time
	gap     time.Duration
	fault   error
}

func (w *writer) start() {
	stop, done := make(chan struct{}), make(chan struct{})
	w.last = time.Now()
	go func() {
		defer close(done)
		pace := time.NewTicker(5 * time.Millisecond)
		defer pace.Stop()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-pace.C:
			}
			err := w.put(n)
			w.mu.Lock()
			if w.fault == nil {
				w.fault = errors.Join(err, w.lost())
			}
			w.mu.Unlock()
		}
	}()
	w.t.Cleanup(func() { close(stop); <-done })
}

// put writes once. While the sidecar is away, and while it does not know yet
// whether it still owns, the controller just comes again; anything else is an
// error.
func (w *writer) put(n int) error {
	req, err := http.NewRequest(http.MethodPut, fmt.Sprintf("%s/plans/%d", w.base(), n), bytes.NewReader([]byte(w.name)))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.refused++
		return nil
	}
	resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNoContent:
		w.written++
		w.gap = max(w.gap, time.Since(w.last))
		w.last = time.Now()
		return nil
	case resp.Header.Get("Forgeyard-Refusal") == "uncertain":
		w.refused++
		return nil
	}
	return fmt.Errorf("%s: write %d: %s %s", w.name, n, resp.Status, resp.Header.Get("Forgeyard-Refusal"))
}

func (w *writer) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written
}

// progress waits for three more writes.
func (w *writer) progress() {
	w.t.Helper()
	ctx, tick := within(w.t, 20*time.Second), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for from := w.count(); w.count() < from+3; {
		w.mu.Lock()
		fault := w.fault
		w.mu.Unlock()
		require.NoError(w.t, fault)
		select {
		case <-tick.C:
		case <-ctx.Done():
			require.NoError(w.t, ctx.Err(), "%s does not write", w.name)
		}
	}
}
