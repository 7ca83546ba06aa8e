package authority

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgeyard/concurrency/authority/coordinator"
	"github.com/forgeyard/concurrency/authority/engine"
	"github.com/forgeyard/concurrency/authority/roster"
	"github.com/forgeyard/concurrency/authority/rpc"
	"github.com/forgeyard/concurrency/shared/identity"
	"github.com/forgeyard/concurrency/shared/telemetry"
	"github.com/forgeyard/concurrency/shared/tunnel"
)

// doors are the servers for sidecars and for people.
type doors struct {
	nodes  *rpc.NodeServer
	people *rpc.PeopleServer
}

func (a *Authority) newDoors(c *coordinator.Coordinator, nodes *roster.Roster, authorityID string) (doors, error) {
	cert, err := identity.LoadPair(a.cfg.TLS.Certificate, a.cfg.TLS.Key)
	if err != nil {
		return doors{}, err
	}
	pool, err := identity.LoadPool(a.cfg.TLS.CA)
	if err != nil {
		return doors{}, err
	}
	if err := showExpiry(a.cfg.TLS, a.clock, a.registry); err != nil {
		return doors{}, err
	}
	sessions := &rpc.Sessions{
		Coordinator: c, Roster: nodes, AuthorityID: authorityID, LockDelay: a.cfg.Timing.LockDelay, Clock: a.clock, Log: a.log.Named("sessions"),
	}
	people, err := rpc.NewPeopleServer(cert, a.people, c, a.log)
	if err != nil {
		return doors{}, err
	}
	return doors{people: people, nodes: rpc.NewNodeServer(
		identity.ServerTLS(cert, pool, true), a.cfg.TLS.TrustDomain, tunnel.Options{Logger: a.log}, sessions, a.registry, a.log.Named("nodes"))}, nil
}

// listeners are open sockets; nothing is accepted yet.
type listeners struct {
	nodes, people, ops net.Listener
}

func listen(cfg ListenConfig) (l listeners, err error) {
	for _, each := range []struct {
		path, addr string
		to         *net.Listener
	}{
		{"listen.ops", cfg.Ops, &l.ops}, {"listen.nodes", cfg.Nodes, &l.nodes}, {"listen.people", cfg.People, &l.people},
	} {
		if *each.to, err = net.Listen("tcp", each.addr); err != nil {
			l.close()
			return listeners{}, fmt.Errorf("%s: %w", each.path, err)
		}
	}
	return l, nil
}

func (l listeners) close() {
	for _, each := range []net.Listener{l.nodes, l.people, l.ops} {
		if each != nil {
			each.Close()
		}
	}
}

// serveOps serves health and metrics from the first moment on.
func serveOps(l net.Listener, reg *prometheus.Registry, ready func() error) *http.Server {
	s := &http.Server{Handler: telemetry.Handler(reg, ready), ReadHeaderTimeout: 5 * time.Second}
	go s.Serve(l)
	return s
}

// state is what /readyz looks at.
type state struct {
	serving atomic.Bool
	engine  atomic.Pointer[engine.Engine]
}

var errNotServing = errors.New("starting or stopping")

func (a *Authority) ready() error {
	e := a.state.engine.Load()
	if e == nil || !a.state.serving.Load() {
		return errNotServing
	}
	if silent := e.History().Silent; silent > a.cfg.Timing.Interval {
		return fmt.Errorf("the store has acknowledged nothing for %s", silent.Round(time.Millisecond))
	}
	return nil
}
