package authority

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/forgeyard/concurrency/authority/access"
	"github.com/forgeyard/concurrency/authority/coordinator"
	"github.com/forgeyard/concurrency/authority/engine"
	"github.com/forgeyard/concurrency/authority/feed"
	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/authority/reconciler"
	"github.com/forgeyard/concurrency/authority/roster"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/telemetry"
)

// Software is the version that is shown to people and peers.
const Software = "forgeyard-authority/0.1"

const (
	inspectTimeout = 2 * time.Second
	stopTimeout    = 5 * time.Second
	sweepTimeout   = 10 * time.Second
	pruneEvery     = 10 * time.Minute
)

// Authority is one replica. It runs once.
type Authority struct {
	cfg      Config
	log      *zap.Logger
	clock    clock.Clock
	registry *prometheus.Registry
	people   *access.People
	serving  chan Addresses
	state    state
}

// Addresses are where the listeners are.
type Addresses struct {
	Nodes, People, Ops string
}

// New checks the configuration; Run does the rest.
func New(cfg Config, log *zap.Logger) (*Authority, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	people, err := access.NewPeople(cfg.People.Tokens)
	if err != nil {
		return nil, err
	}
	return &Authority{
		cfg: cfg, log: log, clock: clock.System(), registry: telemetry.NewRegistry(), people: people,
		serving: make(chan Addresses, 1),
	}, nil
}

// Serving yields the addresses once, when everything is served.
func (a *Authority) Serving() <-chan Addresses { return a.serving }

// Run serves until ctx is done, then stops gracefully. It returns nil after a
// stop that was asked for.
func (a *Authority) Run(ctx context.Context) error {
	listeners, err := listen(a.cfg.Listen)
	if err != nil {
		return err
	}
	defer listeners.close()
	ops := serveOps(listeners.ops, a.registry, a.ready)
	defer ops.Close()

	s, err := openStore(ctx, a.cfg, a.clock)
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	defer s.Close()
	p, err := a.assemble(ctx, s)
	if err != nil {
		return err
	}
	if err := p.engine.Start(ctx); err != nil {
		return err
	}
	defer p.engine.Close()
	a.state.engine.Store(p.engine)
	return a.serve(ctx, p, listeners)
}

// parts are what Run serves.
type parts struct {
	engine      *engine.Engine
	coordinator *coordinator.Coordinator
	feed        *feed.Feed
	sweeper     *reconciler.Sweeper
	doors       doors
}

func (a *Authority) assemble(ctx context.Context, s store.Store) (parts, error) {
	sealer, err := a.sealer(ctx, s)
	if err != nil {
		return parts{}, err
	}
	issuer, err := newIssuer(a.cfg.TLS)
	if err != nil {
		return parts{}, err
	}
	var c *coordinator.Coordinator
	incarnation := ulid.Make().String()
	t := a.cfg.Timing
	policies := bounded{a.cfg.Policy, t}
	e := engine.New(s, engine.Options{
		Policies: policies.of,
		Clock:    a.clock, Sealer: sealer, MaxTTL: t.MaxTTL, LockDelay: t.LockDelay, Interval: t.Interval,
		Incarnation: incarnation, Live: 10 * t.Sweep, Log: a.log.Named("engine"), Metrics: a.registry,
		Committed: func(cmds []fold.Command, out fold.Outcome) { c.Committed(cmds, out) },
	})
	nodes := roster.New(inspectTimeout, a.registry)
	f := feed.New(feed.Config{
		Notices: notices(a.cfg.Store, s), Nudger: nodes, Clock: a.clock, Log: a.log.Named("feed"), Metrics: a.registry,
	})
	c = coordinator.New(coordinator.Config{
		Store: s, Engine: e, Roster: nodes, Moved: f.Moved, Policies: policies, Sealer: sealer, Issuer: issuer,
		Clock: a.clock, Log: a.log.Named("coordinator"), Metrics: a.registry,
		MaxTTL: t.MaxTTL, LockDelay: t.LockDelay, SweepGrace: t.SweepGrace,
		Retention: store.Retention{Commands: a.cfg.Retention.Commands, Ended: a.cfg.Retention.Ended, Audit: a.cfg.Retention.Audit},
		Replica:   replicaName(a.cfg.Listen.People), Incarnation: incarnation, StoreKind: a.cfg.Store.Kind, Software: Software,
	})
	doors, err := a.newDoors(c, nodes, sealer.Authority)
	if err != nil {
		return parts{}, err
	}
	return parts{engine: e, coordinator: c, doors: doors, feed: f, sweeper: reconciler.NewSweeper(reconciler.Config{
		Tidier: c, Clock: a.clock, Every: t.Sweep, PruneEvery: pruneEvery, Timeout: sweepTimeout,
		Log: a.log.Named("sweeper"), Metrics: a.registry,
	})}, nil
}

// replicaName is where people reach this replica.
func replicaName(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	return net.JoinHostPort(host, port)
}

func (a *Authority) sealer(ctx context.Context, s store.Store) (fold.Sealer, error) {
	key, err := readReceiptKey(a.cfg.ReceiptKeyFile)
	if err != nil {
		return fold.Sealer{}, err
	}
	id, err := s.AuthorityID(ctx)
	if err != nil {
		return fold.Sealer{}, fmt.Errorf("read authority id: %w", err)
	}
	return fold.Sealer{Authority: id, Key: key}, nil
}

// serve runs the doors and the sweeper until ctx is done or one of them fails.
func (a *Authority) serve(ctx context.Context, p parts, l listeners) error {
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return wrap("serve nodes", p.doors.nodes.Serve(l.nodes)) })
	group.Go(func() error { return wrap("serve people", p.doors.people.Serve(l.people)) })
	group.Go(func() error {
		p.sweeper.Run(running)
		return nil
	})
	group.Go(func() error {
		p.feed.Run(running)
		return nil
	})
	a.state.serving.Store(true)
	a.log.Info("serving", zap.String("nodes", l.nodes.Addr().String()), zap.String("people", l.people.Addr().String()),
		zap.String("ops", l.ops.Addr().String()))
	a.serving <- Addresses{Nodes: l.nodes.Addr().String(), People: l.people.Addr().String(), Ops: l.ops.Addr().String()}

	<-running.Done()
	a.state.serving.Store(false)
	a.log.Info("stopping")
	stop, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	l.nodes.Close()
	p.doors.nodes.Close(stop)
	p.doors.people.Close(stop)
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
