package rpc_test

import (
	"context"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"time"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/identity"
	"github.com/forgeyard/concurrency/shared/tunnel"

	"crypto"
	"crypto/tls"
)

// sidecar is a node at the end of a real tunnel.
type sidecar struct {
	t       *testing.T
	name    string
	age     time.Duration // of the certificate that it shows
	nonce   string
	session string
	tunnel  *tunnel.Tunnel
	stream  grpc.BidiStreamingClient[pb.OpenRequest, pb.OpenResponse]
	seq     uint64
	waiting map[uint64]*pb.DownFrame

	applied *pb.SetVersion
	nudged  chan *pb.NudgeRequest
	woken   chan *pb.WakeRequest
	report  *pb.InspectResponse
}

// nodeService is what the authority calls back.
type nodeService struct {
	pb.UnimplementedNodeServiceServer
	s *sidecar
}

func (n *nodeService) Wake(_ context.Context, r *pb.WakeRequest) (*pb.WakeResponse, error) {
	n.s.woken <- r
	return &pb.WakeResponse{}, nil
}

func (n *nodeService) Nudge(_ context.Context, r *pb.NudgeRequest) (*pb.NudgeResponse, error) {
	n.s.nudged <- r
	return &pb.NudgeResponse{}, nil
}

func (n *nodeService) Inspect(context.Context, *pb.InspectRequest) (*pb.InspectResponse, error) {
	return n.s.report, nil
}

func (b *bench) connect(name string, tenants ...string) *sidecar {
	b.t.Helper()
	s := b.sidecar(name)
	s.dial(b, tenants)
	return s
}

// sidecar is one that is not connected.
func (b *bench) sidecar(name string) *sidecar {
	return &sidecar{
		t: b.t, name: name, nonce: ulid.Make().String(), waiting: map[uint64]*pb.DownFrame{},
		nudged: make(chan *pb.NudgeRequest, 16), woken: make(chan *pb.WakeRequest, 16), report: &pb.InspectResponse{Node: name},
	}
}

func (s *sidecar) dial(b *bench, tenants []string) {
	key, csr, err := identity.NewNodeKey(s.name)
	require.NoError(s.t, err)
	chain, err := b.ca.IssueNode(csr, identity.Node{Name: s.name, Tenants: tenants}, time.Now().Add(-s.age), time.Hour)
	require.NoError(s.t, err)
	s.present(b, chain, key)
}

// present connects with a certificate.
func (s *sidecar) present(b *bench, chain [][]byte, key crypto.Signer) {
	cert := tls.Certificate{Certificate: chain, PrivateKey: key}
	var err error
	s.tunnel, err = tunnel.Dial(s.t.Context(), b.nodes, identity.ClientTLS(&cert, b.ca.Pool(), "localhost"), tunnel.Options{})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { s.tunnel.Close() })
	back := grpc.NewServer()
	pb.RegisterNodeServiceServer(back, &nodeService{s: s})
	go back.Serve(s.tunnel.Listener())
	s.t.Cleanup(back.Stop)
	s.open()
}

// open starts a session stream on the tunnel.
func (s *sidecar) open() {
	var err error
	s.stream, err = pb.NewSessionServiceClient(s.conn()).Open(context.Background())
	require.NoError(s.t, err)
}

func (s *sidecar) conn() *grpc.ClientConn {
	cc, err := s.tunnel.ClientConn()
	require.NoError(s.t, err)
	s.t.Cleanup(func() { cc.Close() })
	return cc
}

// send puts frames on the stream as one message and returns their numbers.
func (s *sidecar) send(frames ...*pb.UpFrame) []uint64 {
	s.t.Helper()
	var seqs []uint64
	for _, f := range frames {
		s.seq++
		f.Seq = s.seq
		seqs = append(seqs, s.seq)
	}
	require.NoError(s.t, s.stream.Send(&pb.OpenRequest{Frames: frames}))
	return seqs
}

// answer waits for the answer to one frame.
func (s *sidecar) answer(seq uint64) *pb.DownFrame {
	s.t.Helper()
	for s.waiting[seq] == nil {
		m, err := s.stream.Recv()
		require.NoError(s.t, err)
		for _, f := range m.GetFrames() {
			s.waiting[f.GetSeq()] = f
		}
	}
	f := s.waiting[seq]
	delete(s.waiting, seq)
	return f
}

func (s *sidecar) ask(f *pb.UpFrame) *pb.DownFrame {
	s.t.Helper()
	return s.answer(s.send(f)[0])
}

func (s *sidecar) registerFrame() *pb.Register {
	return &pb.Register{
		ProtocolMin: 1, ProtocolMax: 1, Nonce: s.nonce, BootId: "boot-" + s.name, Ttl: durationpb.New(ttl), CommandId: ulid.Make().String(),
	}
}

func (s *sidecar) register() *pb.Registered {
	s.t.Helper()
	got := s.ask(&pb.UpFrame{Body: &pb.UpFrame_Register{Register: s.registerFrame()}})
	require.Nil(s.t, got.GetFault(), got.GetFault().GetMessage())
	s.session = got.GetRegistered().GetSession()
	return got.GetRegistered()
}

func (b *bench) join(name string, tenants ...string) *sidecar {
	b.t.Helper()
	s := b.connect(name, tenants...)
	require.Equal(b.t, "registered", s.register().GetCode())
	return s
}

func (s *sidecar) beat() *pb.HeartbeatAnswer {
	s.t.Helper()
	got := s.ask(&pb.UpFrame{Body: &pb.UpFrame_Heartbeat{Heartbeat: &pb.Heartbeat{Session: s.session, Nonce: s.nonce, Applied: s.applied}}})
	require.Nil(s.t, got.GetFault(), got.GetFault().GetMessage())
	return got.GetHeartbeat()
}

func (s *sidecar) fetch(known ...string) *pb.LeaseSet {
	s.t.Helper()
	got := s.ask(&pb.UpFrame{Body: &pb.UpFrame_FetchSet{FetchSet: &pb.FetchSet{Session: s.session, Nonce: s.nonce, Known: known}}})
	require.Nil(s.t, got.GetFault(), got.GetFault().GetMessage())
	return got.GetSet()
}

// apply fetches the set and reports it as applied from now on.
func (s *sidecar) apply(known ...string) *pb.LeaseSet {
	s.t.Helper()
	set := s.fetch(known...)
	s.applied = set.GetVersion()
	return set
}

func (s *sidecar) command(c *pb.Command) *pb.DownFrame {
	s.t.Helper()
	c.Session, c.Nonce = s.session, s.nonce
	if c.CommandId == "" {
		c.CommandId = ulid.Make().String()
	}
	return s.ask(&pb.UpFrame{Body: &pb.UpFrame_Command{Command: c}})
}

func acquireCommand(scope string) *pb.Command {
	return &pb.Command{CommandId: ulid.Make().String(), Action: &pb.Command_Acquire{Acquire: &pb.Acquire{
		Scope: scope, Holder: &pb.Holder{Kind: "controller", Id: "deployer"}, LeaseId: ulid.Make().String(),
	}}}
}

func (s *sidecar) acquire(scope string) *pb.Answer {
	s.t.Helper()
	got := s.command(acquireCommand(scope))
	require.Nil(s.t, got.GetFault(), got.GetFault().GetMessage())
	return got.GetAnswer()
}

func ref(a *pb.Answer) *pb.LeaseRef {
	return &pb.LeaseRef{Scope: a.GetLease().GetScope(), Lease: a.GetLease().GetId(), Epoch: a.GetEpoch()}
}

func (s *sidecar) claim(a *pb.Answer) *pb.Answer {
	s.t.Helper()
	got := s.command(&pb.Command{Action: &pb.Command_Claim{Claim: ref(a)}})
	require.Nil(s.t, got.GetFault(), got.GetFault().GetMessage())
	return got.GetAnswer()
}

// hold acquires, claims and applies.
func (s *sidecar) hold(scope string) *pb.Answer {
	s.t.Helper()
	a := s.acquire(scope)
	require.Equal(s.t, "acquired", a.GetCode(), a.GetDetail())
	require.Equal(s.t, "claimed", s.claim(a).GetCode())
	s.apply()
	return a
}
