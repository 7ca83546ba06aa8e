package rpc

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/forgeyard/concurrency/authority/coordinator"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

// RenewCertificate implements the service. Who asks is the certificate of the
// tunnel: nothing in the request names a node or tenant.
func (s *Sessions) RenewCertificate(ctx context.Context, r *pb.RenewCertificateRequest) (*pb.RenewCertificateResponse, error) {
	peer, ok := peerOf(ctx)
	if !ok {
		return nil, status.Error(codes.Unauthenticated, "no node certificate")
	}
	got, err := s.Coordinator.RenewCertificate(ctx, peer.caller(), r.GetCsrDer())
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.RenewCertificateResponse{CertificateChainDer: got.Chain, CaDer: got.Roots}, nil
}

// caller is the node as the use cases know it.
func (p Peer) caller() coordinator.Caller {
	return coordinator.Caller{Node: p.Node, Tenants: p.Tenants, Certificate: p.Certificate}
}
