package sidecar

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/telemetry"
	"github.com/forgeyard/concurrency/sidecar/cache"
	"github.com/forgeyard/concurrency/sidecar/credential"
	"github.com/forgeyard/concurrency/sidecar/gate"
	"github.com/forgeyard/concurrency/sidecar/journal"
	"github.com/forgeyard/concurrency/sidecar/keeper"
	"github.com/forgeyard/concurrency/sidecar/localapi"
	"github.com/forgeyard/concurrency/sidecar/proxy"
	"github.com/forgeyard/concurrency/sidecar/uplink"
)

// Sidecar is the assembled agent. Use New, then Run.
type Sidecar struct {
	cfg     Config
	log     *zap.Logger
	clock   clock.Clock
	reg     *prometheus.Registry
	lock    *cache.Lock
	cache   *cache.Cache
	journal *journal.Journal
	gate    *gate.Gate
	keeper  *keeper.Keeper
	proxy   *proxy.Proxy
	woken   relay
}

// New checks the configuration and opens everything that is on disk.
func New(cfg Config, log *zap.Logger) (*Sidecar, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Sidecar{cfg: cfg, log: log, clock: clock.System(), reg: telemetry.NewRegistry()}
	if err := s.build(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *Sidecar) build() error {
	if err := os.MkdirAll(s.cfg.DataDir, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	var err error
	if s.lock, err = cache.Acquire(filepath.Join(s.cfg.DataDir, "lock")); err != nil {
		return err
	}
	if err := s.openFiles(); err != nil {
		return err
	}
	s.gate = gate.New(s.clock)
	if s.keeper, err = s.newKeeper(); err != nil {
		return err
	}
	s.proxy, err = s.newProxy()
	return err
}

func (s *Sidecar) openFiles() error {
	var damage cache.Damage
	var err error
	if s.cache, damage, err = cache.Open(cache.Config{Dir: s.cfg.DataDir, Now: s.clock.Now()}); err != nil {
		return err
	}
	if damage.SetAside != "" {
		s.log.Error("cache was damaged: set aside, starting with nothing", zap.String("file", damage.SetAside), zap.Error(damage.Cause))
	}
	if s.journal, err = journal.Open(journal.Config{Path: filepath.Join(s.cfg.DataDir, "journal.db"), Clock: s.clock, Log: s.log}); err != nil {
		return err
	}
	if d := s.journal.Damage(); d.SetAside != "" {
		s.log.Error("journal was damaged: set aside; what it knew of open effects is lost", zap.String("file", d.SetAside), zap.Error(d.Cause))
	}
	return nil
}

func (s *Sidecar) newKeeper() (*keeper.Keeper, error) {
	boot, err := clock.BootID()
	if err != nil {
		return nil, err
	}
	return keeper.New(keeper.Config{
		Node: s.cfg.Node, BootID: boot, Budget: s.cfg.budget(), SettleTimeout: s.cfg.SettleTimeout, Cache: s.cache,
		LockFile: s.lock.ID(), Gate: s.gate, Effects: s.journal, Clock: s.clock, Log: s.log, Registerer: s.reg, Alive: localapi.Alive,
	}, rand.Text())
}

func (s *Sidecar) newProxy() (*proxy.Proxy, error) {
	providers, err := s.cfg.providers()
	if err != nil {
		return nil, err
	}
	return proxy.New(proxy.Config{
		Node: s.cfg.Node, Providers: providers, Gate: s.gate, Journal: s.journal, Confirmer: s.keeper, Clock: s.clock, Log: s.log, Registerer: s.reg,
		TTL: s.cfg.Session.TTL, CallLimit: s.cfg.Proxy.CallLimit, BodyLimit: s.cfg.Proxy.BodyLimit, SpoolDir: s.cfg.DataDir,
	})
}

// Run serves until ctx ends, then stops in order: doors, keeper, files.
func (s *Sidecar) Run(ctx context.Context) error {
	defer s.close()
	up, proof, err := s.newUplink(ctx)
	if err != nil {
		return err
	}
	l, err := s.listen()
	if err != nil {
		return err
	}
	// The keeper and its uplink outlive the doors: what ends there is released.
	inner, stopInner := context.WithCancel(context.WithoutCancel(ctx))
	defer stopInner()
	var core, doors errgroup.Group
	core.Go(func() error { return s.keeper.Run(inner, up) })
	core.Go(func() error { return up.Run(inner) })
	core.Go(func() error { s.watchClock(inner); return nil })
	core.Go(func() error { return proof.Run(inner, up, up.Reregister) })
	outer, stopOuter := context.WithCancel(ctx)
	defer stopOuter()
	door := func(serve func(context.Context) error) {
		doors.Go(func() error {
			defer stopOuter() // one door that fails ends the others
			return serve(outer)
		})
	}
	door(func(ctx context.Context) error { return s.proxy.Serve(ctx, l.proxy) })
	door(func(ctx context.Context) error { return s.localAPI(up).Serve(ctx, l.local) })
	if l.ops != nil {
		door(func(ctx context.Context) error { return s.serveOps(ctx, l.ops) })
	}
	if err := s.announce(l); err != nil {
		stopOuter()
		return errors.Join(err, doors.Wait())
	}
	s.log.Info("sidecar serves", zap.String("node", s.cfg.Node), zap.String("socket", s.cfg.socket()), zap.Stringer("proxy", l.proxy.Addr()))
	<-outer.Done()
	if s.cfg.ReleaseOnStop {
		s.releaseAll(inner)
	}
	err = doors.Wait()
	s.closeSession(inner)
	stopInner()
	return errors.Join(err, core.Wait())
}

func (s *Sidecar) releaseAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.SettleTimeout)
	defer cancel()
	if err := s.keeper.ReleaseAll(ctx); err != nil {
		s.log.Warn("release on stop", zap.Error(err))
	}
}

// watchClock wakes the keeper when the wall clock was set or the machine woke
// up. Without it the keeper compares the clocks at each of its timers.
func (s *Sidecar) watchClock(ctx context.Context) {
	if err := clock.WatchSteps(ctx, s.keeper.CompareClocks); err != nil {
		s.log.Warn("steps of the wall clock are noticed at the next timer only", zap.String("node", s.cfg.Node), zap.Error(err))
	}
}

// closeTimeout bounds the last word to the authority; unheard, the session runs
// out by itself.
const closeTimeout = 2 * time.Second

func (s *Sidecar) closeSession(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if err := s.keeper.Close(ctx); err != nil {
		s.log.Warn("stop", zap.Error(err))
	}
}

func (s *Sidecar) newUplink(ctx context.Context) (*uplink.Uplink, *credential.Credential, error) {
	a := s.cfg.Authority
	proof, err := credential.Open(ctx, credential.Config{
		Node: s.cfg.Node, Dir: s.cfg.DataDir, CAFile: a.CAFile, CertificateFile: a.CertificateFile, KeyFile: a.KeyFile,
		Clock: s.clock, Log: s.log, Metrics: s.reg,
	}, uplink.Enrolment{Node: s.cfg.Node, CAFile: a.CAFile, PeopleAddress: a.PeopleAddress, TokenFile: a.JoinTokenFile})
	if err != nil {
		return nil, nil, err
	}
	return uplink.New(uplink.Config{
		Addresses: shuffled(a.Addresses), Credential: proof, Node: s.cfg.Node, Software: Software,
		Registrar: s.keeper, Inspector: inspector{s}, Woken: s.woken.wake, Clock: s.clock, Log: s.log, Tunnel: tunnelOptions(s.cfg.Session, s.log),
		MaxPause: min(s.cfg.Session.Interval, 3*time.Second), Patience: patience(s.cfg.Session),
	}), proof, nil
}

func (s *Sidecar) localAPI(up *uplink.Uplink) *localapi.Server {
	door := localapi.New(localapi.Config{
		Node: s.cfg.Node, Software: Software, Keeper: s.keeper, Effects: effects{s.journal}, BaseURLs: s.proxy.BaseURLs,
		Proxy: s.proxy.Address, Uplink: up.Address, Authority: up, Clock: s.clock, Log: s.log,
	})
	s.woken.tell(door.Wake)
	return door
}

func (s *Sidecar) serveOps(ctx context.Context, l net.Listener) error {
	srv := &http.Server{Handler: telemetry.Handler(s.reg, s.ready), ReadHeaderTimeout: 5 * time.Second}
	stopped := context.AfterFunc(ctx, func() { srv.Close() })
	defer stopped()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve operators: %w", err)
	}
	return nil
}

// ready says whether the authority has confirmed this node lately.
func (s *Sidecar) ready() error {
	if err := s.journal.Err(); err != nil {
		return err
	}
	if st := s.keeper.Status(); st.State != "confirmed" {
		return fmt.Errorf("session is %s %s", st.State, st.Detail)
	}
	return nil
}

// close closes what is on disk; it tolerates what was never opened.
func (s *Sidecar) close() {
	if s.journal != nil {
		if err := s.journal.Close(); err != nil {
			s.log.Warn("close journal", zap.Error(err))
		}
	}
	if s.cache != nil {
		if err := s.cache.Close(); err != nil {
			s.log.Warn("close cache", zap.Error(err))
		}
	}
	if s.lock != nil {
		s.lock.Close()
	}
}
