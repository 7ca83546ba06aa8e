package uplink_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/clock/clocktest"
	"github.com/forgeyard/concurrency/shared/identity"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/tunnel"
	"github.com/forgeyard/concurrency/shared/tunnel/tunneltest"
	"github.com/forgeyard/concurrency/sidecar/keeper"
	"github.com/forgeyard/concurrency/sidecar/uplink"
)

const (
	node     = "node-a"
	maxPause = 2 * time.Second
)

// replica is a replica of the authority whose answers the test gives.
type replica struct {
	pb.UnimplementedSessionServiceServer
	addr    string
	tunnels chan *tunnel.Tunnel
	streams chan *stream
	issue   func(csrDER []byte) (*pb.RenewCertificateResponse, error)
}

// RenewCertificate implements pb.SessionServiceServer.
func (r *replica) RenewCertificate(_ context.Context, q *pb.RenewCertificateRequest) (*pb.RenewCertificateResponse, error) {
	return r.issue(q.GetCsrDer())
}

// stream is one session stream as the replica sees it.
type stream struct {
	t    testing.TB
	srv  grpc.BidiStreamingServer[pb.OpenRequest, pb.OpenResponse]
	up   chan *pb.UpFrame
	over chan struct{} // closed by the test: the replica ends the stream
	gone chan struct{} // closed when the stream has ended
}

func serveReplica(t *testing.T, pki tunneltest.PKI) *replica {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &replica{addr: inner.Addr().String(), tunnels: make(chan *tunnel.Tunnel, 16), streams: make(chan *stream, 16)}
	srv := grpc.NewServer(tunnel.ServerOptions()...)
	pb.RegisterSessionServiceServer(srv, r)
	t.Cleanup(func() { inner.Close(); srv.Stop() })
	conf := identity.ServerTLS(pki.Server, pki.CA.Pool(), true)
	go func() {
		for {
			conn, err := inner.Accept()
			if err != nil {
				return
			}
			go func() {
				tun, err := tunnel.Accept(context.Background(), tls.Server(conn, conf), tunnel.Options{})
				if err != nil {
					return // the test sees that nothing registers
				}
				r.tunnels <- tun
				srv.Serve(tun.Listener())
			}()
		}
	}()
	return r
}

// Open implements pb.SessionServiceServer.
func (r *replica) Open(srv grpc.BidiStreamingServer[pb.OpenRequest, pb.OpenResponse]) error {
	s := &stream{srv: srv, up: make(chan *pb.UpFrame, 1024), over: make(chan struct{}), gone: make(chan struct{})}
	defer close(s.gone)
	r.streams <- s
	read := make(chan error, 1)
	go func() {
		for {
			msg, err := srv.Recv()
			if err != nil {
				read <- err
				return
			}
			for _, f := range msg.GetFrames() {
				s.up <- f
			}
		}
	}()
	select {
	case err := <-read:
		return err
	case <-s.over:
		return nil
	}
}

// next is the next stream, not yet registered.
func (r *replica) next(t testing.TB) *stream {
	t.Helper()
	s := receive(t, r.streams)
	s.t = t
	return s
}

// register answers the first frame of the next stream.
func (r *replica) register(t testing.TB, session string) *stream {
	t.Helper()
	s := r.next(t)
	f := s.frame()
	require.NotNil(t, f.GetRegister(), "the first frame registers")
	s.answer(&pb.DownFrame{Seq: f.GetSeq(), Body: &pb.DownFrame_Registered{Registered: &pb.Registered{
		Code: string(lease.Registered), Session: session, Protocol: 1, AuthorityId: "authority-1",
	}}})
	return s
}

func (s *stream) frame() *pb.UpFrame {
	s.t.Helper()
	return receive(s.t, s.up)
}

// answer sends frames in one message.
func (s *stream) answer(frames ...*pb.DownFrame) {
	s.t.Helper()
	require.NoError(s.t, s.srv.Send(&pb.OpenResponse{Frames: frames}))
}

// renewed answers a heartbeat.
func renewed(seq uint64, remaining time.Duration) *pb.DownFrame {
	return &pb.DownFrame{Seq: seq, Body: &pb.DownFrame_Heartbeat{Heartbeat: &pb.HeartbeatAnswer{
		Code: string(lease.Renewed), Remaining: durationpb.New(remaining),
	}}}
}

// registrar records what the uplink tells the keeper.
type registrar struct {
	registered   chan keeper.Registered
	hold         chan struct{} // when set, Registered returns after it is closed
	waiting      chan lease.Answer
	disconnected chan struct{}
	nudged       chan lease.SetVersion
}

func newRegistrar() *registrar {
	return &registrar{
		registered: make(chan keeper.Registered, 16), waiting: make(chan lease.Answer, 16),
		disconnected: make(chan struct{}, 16), nudged: make(chan lease.SetVersion, 16),
	}
}

func (r *registrar) Registration() (keeper.Registration, error) {
	return keeper.Registration{Nonce: "nonce-1", BootID: "boot-1", TTL: 15 * time.Second, Resume: "s0", ResumeNonce: "nonce-0"}, nil
}

func (r *registrar) Registered(ctx context.Context, got keeper.Registered) error {
	r.registered <- got
	if r.hold == nil {
		return nil
	}
	select {
	case <-r.hold:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *registrar) Waiting(a lease.Answer)          { r.waiting <- a }
func (r *registrar) Disconnected()                   { r.disconnected <- struct{}{} }
func (r *registrar) Nudged(v lease.SetVersion)       { r.nudged <- v }
func (r *registrar) Inspect(bool, int) uplink.Report { return uplink.Report{State: "connected"} }

// listening is a manual clock that tells which timers were asked for.
type listening struct {
	*clocktest.Manual
	asked chan time.Duration
}

// NewTimer implements clock.Clock.
func (l *listening) NewTimer(d time.Duration) clock.Timer {
	timer := l.Manual.NewTimer(d)
	l.asked <- d
	return timer
}

// fixture is an uplink that runs.
type fixture struct {
	*uplink.Uplink
	t         testing.TB
	clock     *listening
	registrar *registrar

	credential *fixed
}

// fixed is a certificate that the test changes.
type fixed struct {
	mu      sync.Mutex
	pair    tls.Certificate
	roots   *x509.CertPool
	problem string
	soon    chan struct{}
}

func (f *fixed) change(to func(*fixed)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	to(f)
}

func (f *fixed) ClientTLS(serverName string) *tls.Config {
	f.mu.Lock()
	defer f.mu.Unlock()
	pair := f.pair
	return identity.ClientTLS(&pair, f.roots, serverName)
}

func (f *fixed) Problem() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.problem
}

func (f *fixed) RenewSoon() { f.soon <- struct{}{} }

func run(t *testing.T, pki tunneltest.PKI, r *registrar, addresses ...string) *fixture {
	t.Helper()
	return runWith(t, pki, r, func(c *uplink.Config) { c.Addresses = addresses })
}

func runWith(t *testing.T, pki tunneltest.PKI, r *registrar, configure func(*uplink.Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, registrar: r, clock: &listening{
		Manual: clocktest.New(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), asked: make(chan time.Duration, 1024),
	}}
	f.credential = &fixed{pair: pki.Node(t, identity.Node{Name: node, Tenants: []string{"acme"}}), roots: pki.CA.Pool(), soon: make(chan struct{}, 16)}
	cfg := uplink.Config{
		Credential: f.credential, Node: node, Software: "test", Registrar: r, Inspector: r, Clock: f.clock, Log: zaptest.NewLogger(t), MaxPause: maxPause,
	}
	configure(&cfg)
	f.Uplink = uplink.New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, receive(t, done), "Run ends with its context")
	})
	return f
}

// connected waits for the registration to be usable.
func (f *fixture) connected(s *stream) {
	f.t.Helper()
	receive(f.t, f.registrar.registered)
	// A command waits for the connection; its frame shows that there is one.
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := f.Do(ctx, release("probe"))
		done <- err
	}()
	require.Equal(f.t, "probe", s.frame().GetCommand().GetCommandId())
	cancel()
	require.Error(f.t, receive(f.t, done))
}

// pass lets the next pause of an attempt to connect, or to send, go by.
func (f *fixture) pass() time.Duration {
	f.t.Helper()
	d := receive(f.t, f.clock.asked)
	f.clock.Advance(d)
	return d
}

// passAll lets every pause from now on go by, until the test ends.
func (f *fixture) passAll() {
	stop := make(chan struct{})
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			select {
			case d := <-f.clock.asked:
				f.clock.Advance(d)
			case <-stop:
				return
			}
		}
	})
	f.t.Cleanup(func() { close(stop); passing.Wait() })
}

// receive fails the test instead of hanging it.
func receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		require.FailNow(t, "nothing came")
		panic("unreachable")
	}
}
