package replicas_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/sidecar"
	"github.com/forgeyard/concurrency/sidecar/client"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// fleet is many sidecars of one site, with their controllers.
type fleet struct {
	t       *testing.T
	members []*member

	uncertain atomic.Int64 // holds that became so
	lost      atomic.Int64
	pairs     atomic.Int64 // acquired and released by the load
	slowest   atomic.Int64 // nanoseconds of one pair
}

// member is one sidecar.
type member struct {
	fleet  *fleet
	node   string
	socket string
	client *client.Client
	stop   func()
	keeps  []*keep
}

// keep is a controller that wants one scope all the time.
type keep struct {
	scope scope.Scope
	end   func() // stops asking

	mu      sync.Mutex
	hold    *client.Hold // nil: it is asking
	granted time.Time    // the last one
	state   ownership.State
	at      map[ownership.State]time.Time // when each state was last entered
}

// lastGrant is when the newest hold began.
func (k *keep) lastGrant() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.granted
}

// entered is when a state was last entered.
func (k *keep) entered(s ownership.State) (time.Time, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at, ok := k.at[s]
	return at, ok
}

func (k *keep) epoch() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hold == nil {
		return 0
	}
	return uint64(k.hold.Token())
}

// start runs n sidecars, each with as many kept scopes, and returns when all
// of them are owned.
func (s *site) start(n, scopes int, session sidecar.SessionConfig) *fleet {
	s.t.Helper()
	f := &fleet{t: s.t}
	log := fileLogger(s.t, filepath.Join(s.dir, "sidecars.log"))
	s.t.Cleanup(f.stop)
	for i := range n {
		f.members = append(f.members, s.member(f, fmt.Sprintf("node-%03d", i), session, log))
	}
	for _, m := range f.members {
		for i := range scopes {
			m.keep(f.t, fmt.Sprintf("%s-%d", m.node, i))
		}
	}
	eventually(s.t, 2*time.Minute, "every scope is owned", func() bool { return f.owned() == n*scopes })
	return f
}

// stop ends every controller, then every sidecar.
func (f *fleet) stop() {
	f.each(func(_ *member, k *keep) { k.end() })
	var all errgroup.Group
	for _, m := range f.members {
		all.Go(func() error {
			m.client.Close()
			m.stop()
			return nil
		})
	}
	_ = all.Wait()
}

func fileLogger(t *testing.T, path string) *zap.Logger {
	t.Helper()
	out, err := os.Create(path)
	require.NoError(t, err)
	t.Cleanup(func() { out.Close() })
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig()), zapcore.Lock(out), zap.InfoLevel))
}

func (s *site) member(f *fleet, node string, session sidecar.SessionConfig, log *zap.Logger) *member {
	s.t.Helper()
	dir := filepath.Join(s.disks, node)
	require.NoError(s.t, os.MkdirAll(dir, 0o700))
	cfg := sidecar.DefaultConfig()
	cfg.Node, cfg.DataDir, cfg.Session = node, dir, session
	var err error
	cfg.Authority.Addresses, cfg.Authority.CAFile = s.addresses(), s.replicas[0].CA
	cfg.Authority.CertificateFile, cfg.Authority.KeyFile, err = s.replicas[0].Certify(node, dir)
	require.NoError(s.t, err)
	sc, err := sidecar.New(cfg, log.With(zap.String("sidecar", node)))
	require.NoError(s.t, err)
	m := &member{fleet: f, node: node, socket: filepath.Join(dir, "sidecar.sock")}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- sc.Run(ctx) }()
	m.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("%s: %v", node, err)
		}
	}
	m.client, err = client.Dial(m.socket)
	require.NoError(s.t, err)
	return m
}

func environment(t testing.TB, name string) scope.Scope {
	t.Helper()
	s, err := scope.New("acme", scope.Environment, name)
	require.NoError(t, err)
	return s
}

// keep takes a scope, and takes it again whenever it was lost, until the test
// ends.
func (m *member) keep(t *testing.T, name string) *keep {
	t.Helper()
	k := &keep{scope: environment(t, name), at: map[ownership.State]time.Time{}}
	m.keeps = append(m.keeps, k)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			m.own(ctx, k)
		}
	})
	k.end = func() {
		cancel()
		running.Wait()
	}
	return k
}

func (m *member) own(ctx context.Context, k *keep) {
	h, err := m.client.Acquire(ctx, k.scope, client.Wait(time.Minute), client.OnEvent(func(e client.Event) { m.event(k, e) }))
	if err != nil {
		pause(ctx, 100*time.Millisecond)
		return
	}
	k.mu.Lock()
	k.hold, k.granted = h, time.Now()
	k.mu.Unlock()
	lost := false
	select {
	case <-h.Context().Done(): // said by the sidecar, or by the library's own clock
		lost = true
		m.fleet.lost.Add(1)
	case <-ctx.Done():
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hold = nil
	if lost {
		k.state, k.at[ownership.Lost] = ownership.Lost, time.Now()
	}
}

func (m *member) event(k *keep, e client.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e.State == k.state {
		return
	}
	if e.State == ownership.Uncertain {
		m.fleet.uncertain.Add(1)
	}
	k.state, k.at[e.State] = e.State, time.Now()
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// each visits every kept scope.
func (f *fleet) each(visit func(*member, *keep)) {
	for _, m := range f.members {
		for _, k := range m.keeps {
			visit(m, k)
		}
	}
}

// owned counts the scopes whose controller has a hold that is owned.
func (f *fleet) owned() int {
	n := 0
	f.each(func(_ *member, k *keep) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.hold != nil && k.state == ownership.Owned {
			n++
		}
	})
	return n
}

// epochs are those of all holds, by scope.
func (f *fleet) epochs() map[string]uint64 {
	out := map[string]uint64{}
	f.each(func(_ *member, k *keep) { out[k.scope.String()] = k.epoch() })
	return out
}

// load lets every member take and release another scope again and again until
// stop.
func (f *fleet) load(every time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running errgroup.Group
	for _, m := range f.members {
		s := environment(f.t, "load-"+m.node)
		running.Go(func() error {
			for ctx.Err() == nil {
				m.pair(s)
				pause(ctx, every)
			}
			return nil
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		_ = running.Wait()
	})
	f.t.Cleanup(stop)
	return stop
}

// pair is brought to its end also when the load stops meanwhile.
func (m *member) pair(s scope.Scope) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	began := time.Now()
	h, err := m.client.Acquire(ctx, s, client.Wait(30*time.Second))
	if err != nil {
		return
	}
	if _, err := h.Release(ctx); err != nil {
		return
	}
	m.fleet.pairs.Add(1)
	for took := int64(time.Since(began)); ; {
		was := m.fleet.slowest.Load()
		if took <= was || m.fleet.slowest.CompareAndSwap(was, took) {
			return
		}
	}
}

// uplinks are where each member is connected; empty: nowhere.
func (f *fleet) uplinks() []string {
	out := make([]string, len(f.members))
	var all errgroup.Group
	all.SetLimit(16)
	for i, m := range f.members {
		all.Go(func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			if st, err := m.client.API().Status(ctx, &pb.StatusRequest{}); err == nil {
				out[i] = st.GetAuthority()
			}
			return nil
		})
	}
	_ = all.Wait()
	return out
}

func count(all []string, one string) int {
	n := 0
	for _, v := range all {
		if v == one {
			n++
		}
	}
	return n
}
