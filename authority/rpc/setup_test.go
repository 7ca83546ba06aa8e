package rpc_test

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/forgeyard/concurrency/authority/access"
	"github.com/forgeyard/concurrency/authority/coordinator"
	"github.com/forgeyard/concurrency/authority/engine"
	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/authority/roster"
	"github.com/forgeyard/concurrency/authority/rpc"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/authority/store/sqlite"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/clock/clocktest"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/identity"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/policy"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/shared/tunnel"
)

const (
	ttl       = 15 * time.Second
	maxTTL    = 30 * time.Second
	lockDelay = 2500 * time.Millisecond
)

// bench is an authority behind its doors, with a clock by hand.
type bench struct {
	t           *testing.T
	clock       *clocktest.Manual
	ca          *identity.CA
	sealer      fold.Sealer
	store       store.Store
	engine      *engine.Engine
	coordinator *coordinator.Coordinator
	nodes       string // addresses
	people      string
	server      *rpc.NodeServer
	listener    net.Listener
	registry    *prometheus.Registry
	seen        func(node string) // called when a registration has looked a node up
}

// issues makes node certificates that last a week.
type issues struct{ *identity.CA }

func (i issues) Check(csrDER []byte, node string) error {
	_, err := i.Issue(csrDER, node, []string{"trial"}, time.Now())
	return err
}

func (i issues) Issue(csrDER []byte, node string, tenants []string, now time.Time) ([][]byte, error) {
	return i.IssueNode(csrDER, identity.Node{Name: node, Tenants: tenants}, now, 7*24*time.Hour)
}

// watched is the store with a hook in the middle of a registration.
type watched struct {
	store.Store
	b *bench
}

// SeeNode implements store.Fleet.
func (w watched) SeeNode(ctx context.Context, v store.Visit) (store.Node, error) {
	n, err := w.Store.SeeNode(ctx, v)
	if w.b.seen != nil {
		w.b.seen(v.Node)
	}
	return n, err
}

func token(name string, tenants []string, roles ...access.Role) access.Token {
	h := access.Hash(name + "-secret")
	return access.Token{Name: name, SHA256: hex.EncodeToString(h[:]), Tenants: tenants, Roles: roles}
}

func setup(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, clock: clocktest.New(time.Now())}
	var err error
	b.ca, err = identity.NewCA(time.Now(), identity.DefaultTrustDomain)
	require.NoError(t, err)
	b.store, err = sqlite.Open(t.Context(), sqlite.Config{
		Path: filepath.Join(t.TempDir(), "a.db"), MemoryPath: filepath.Join(t.TempDir(), "m"), Clock: b.clock, MaxTTL: maxTTL + lockDelay,
	})
	require.NoError(t, err)
	t.Cleanup(func() { b.store.Close() })
	b.store = watched{b.store, b}
	id, err := b.store.AuthorityID(t.Context())
	require.NoError(t, err)
	b.sealer = fold.Sealer{Authority: id, Key: epoch.ReceiptKey{9}}
	b.assemble()
	return b
}

func (b *bench) assemble() {
	t, reg := b.t, prometheus.NewRegistry()
	b.registry = reg
	b.engine = engine.New(b.store, engine.Options{
		Clock: b.clock, Sealer: b.sealer, MaxTTL: maxTTL, LockDelay: lockDelay, Interval: 3 * time.Second,
		Incarnation: ulid.Make().String(), Metrics: reg,
		Policies:  func(s scope.Scope) lease.Policy { return policy.Default(s.Kind()) },
		Committed: func(cmds []fold.Command, out fold.Outcome) { b.coordinator.Committed(cmds, out) },
	})
	nodes := roster.New(2*time.Second, reg)
	b.coordinator = coordinator.New(coordinator.Config{
		Store: b.store, Engine: b.engine, Roster: nodes, Moved: func(m []fold.Moved) { nodes.Nudge(m) }, Sealer: b.sealer, Clock: b.clock, Log: zap.NewNop(), Metrics: reg,
		Policies: policy.Config{Rules: []policy.Rule{{Match: "acme/environment:free-*", OnUncleanEnd: lease.FreeAfter}}},
		MaxTTL:   maxTTL, LockDelay: lockDelay, SweepGrace: ttl,
		Retention: store.Retention{Commands: 24 * time.Hour, Ended: 48 * time.Hour, Audit: 96 * time.Hour},
		StoreKind: "sqlite", Software: "test", Incarnation: "test", Issuer: issues{b.ca},
	})
	require.NoError(t, b.engine.Start(t.Context()))
	t.Cleanup(b.engine.Close)
	b.serveNodes(nodes)
	b.servePeople()
}

func (b *bench) cert() tls.Certificate {
	cert, err := b.ca.IssueServer([]string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}, time.Now(), time.Hour)
	require.NoError(b.t, err)
	return cert
}

func listen(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func (b *bench) serveNodes(nodes *roster.Roster) {
	sessions := &rpc.Sessions{Coordinator: b.coordinator, Roster: nodes, AuthorityID: b.sealer.Authority, LockDelay: lockDelay, Log: zap.NewNop()}
	b.server = rpc.NewNodeServer(identity.ServerTLS(b.cert(), b.ca.Pool(), true), b.ca.TrustDomain(), tunnel.Options{}, sessions, b.registry, zap.NewNop())
	b.listener = listen(b.t)
	b.nodes = b.listener.Addr().String()
	served := make(chan error, 1)
	go func() { served <- b.server.Serve(b.listener) }()
	b.t.Cleanup(func() {
		b.listener.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		b.server.Close(ctx)
		require.NoError(b.t, <-served)
	})
}

func (b *bench) servePeople() {
	people, err := access.NewPeople([]access.Token{
		token("admin", []string{"*"}, access.Admin),
		token("acme-admin", []string{"acme"}, access.Admin),
		token("reader", []string{"acme"}, access.Read),
		token("umbrella", []string{"umbrella"}, access.Read, access.ForceRelease),
		token("sre", []string{"acme"}, access.Read, access.ForceRelease),
	})
	require.NoError(b.t, err)
	server, err := rpc.NewPeopleServer(b.cert(), people, b.coordinator, zap.NewNop())
	require.NoError(b.t, err)
	l := listen(b.t)
	b.people = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	b.t.Cleanup(func() {
		server.Close(b.t.Context())
		require.NoError(b.t, <-served)
	})
}

// bearer authenticates a gRPC client.
type bearer string

func (t bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(t) + "-secret"}, nil
}
func (bearer) RequireTransportSecurity() bool { return true }

func (b *bench) as(name string) pb.ConcurrencyServiceClient {
	return pb.NewConcurrencyServiceClient(b.dialPeople(name))
}

func (b *bench) dialPeople(name string) *grpc.ClientConn {
	opts := []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(identity.ClientTLS(nil, b.ca.Pool(), "localhost")))}
	if name != "" {
		opts = append(opts, grpc.WithPerRPCCredentials(bearer(name)))
	}
	cc, err := grpc.NewClient(b.people, opts...)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { cc.Close() })
	return cc
}

// settle lets the pause that begins at the start end, for these sidecars.
func (b *bench) pass(d time.Duration, beating ...*sidecar) {
	b.t.Helper()
	for range int(d / time.Second) {
		b.clock.Advance(time.Second)
		require.NoError(b.t, b.coordinator.Sweep(b.t.Context()))
		for _, s := range beating {
			require.Equal(b.t, "renewed", s.beat().GetCode())
		}
	}
}
