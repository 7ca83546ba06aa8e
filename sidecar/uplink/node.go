package uplink

import (
	"context"

	"google.golang.org/grpc"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/tunnel"
	"github.com/forgeyard/concurrency/shared/wire"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// Report is what this node knows at one moment.
type Report struct {
	State   string
	Holds   []HoldReport
	Effects []effect.Effect
}

// HoldReport is one hold with its counts.
type HoldReport struct {
	Term     ownership.Term
	InFlight int64
	Unknown  int
}

// nodeServer is NodeService: what the authority calls on us.
type nodeServer struct {
	pb.UnsafeNodeServiceServer
	cfg Config
}

var _ pb.NodeServiceServer = (*nodeServer)(nil)

// serveNode answers the authority on the tunnel until stop.
func serveNode(t *tunnel.Tunnel, cfg Config) (stop func()) {
	srv := grpc.NewServer(tunnel.ServerOptions()...)
	pb.RegisterNodeServiceServer(srv, &nodeServer{cfg: cfg})
	go srv.Serve(t.Listener()) // ends with the tunnel
	return srv.Stop
}

// Nudge implements pb.NodeServiceServer.
func (s *nodeServer) Nudge(_ context.Context, r *pb.NudgeRequest) (*pb.NudgeResponse, error) {
	s.cfg.Registrar.Nudged(wire.FromVersion(r.GetVersion()))
	return &pb.NudgeResponse{}, nil
}

// Wake implements pb.NodeServiceServer.
func (s *nodeServer) Wake(context.Context, *pb.WakeRequest) (*pb.WakeResponse, error) {
	if s.cfg.Woken != nil {
		s.cfg.Woken()
	}
	return &pb.WakeResponse{}, nil
}

// Inspect implements pb.NodeServiceServer.
func (s *nodeServer) Inspect(_ context.Context, r *pb.InspectRequest) (*pb.InspectResponse, error) {
	limit := int(r.GetEffectLimit())
	if limit <= 0 {
		limit = 100
	}
	got := s.cfg.Inspector.Inspect(r.GetEffects(), limit)
	out := &pb.InspectResponse{Node: s.cfg.Node, State: got.State}
	for _, h := range got.Holds {
		out.Holds = append(out.Holds, &pb.Hold{
			Lease: h.Term.Lease, Scope: h.Term.Scope.String(), Epoch: uint64(h.Term.Epoch), State: string(h.Term.State),
			Reason: string(h.Term.Reason), InFlight: int32(h.InFlight), UnknownEffects: int32(h.Unknown), Holder: wire.ToHolder(h.Term.Holder),
		})
	}
	for _, e := range got.Effects {
		out.Effects = append(out.Effects, wire.ToEffect(e, s.cfg.Node))
	}
	return out, nil
}
