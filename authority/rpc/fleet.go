package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/forgeyard/concurrency/authority/access"
	"github.com/forgeyard/concurrency/authority/coordinator"
	"github.com/forgeyard/concurrency/authority/store"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/wire"
)

// ListNodes implements the service.
func (s *People) ListNodes(ctx context.Context, _ *pb.ListNodesRequest) (*pb.ListNodesResponse, error) {
	p, err := access.PersonOf(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	rows, err := s.Coordinator.Fleet(ctx, p)
	if err != nil {
		return nil, toStatus(err)
	}
	out := &pb.ListNodesResponse{}
	for _, n := range rows {
		out.Nodes = append(out.Nodes, toNode(n))
	}
	return out, nil
}

func toNode(n coordinator.NodeRow) *pb.Node {
	out := &pb.Node{
		Name: n.Name, Tenants: n.Tenants, Session: n.Session.ID, Connected: n.Connected, Via: n.Via, Alive: n.Alive,
		ExpiresIn: durationpb.New(n.ExpiresIn), Leases: int32(n.Leases), Version: wire.ToVersion(n.Version),
		Applied: wire.ToVersion(n.Session.Applied), RegisteredAt: wire.ToTime(n.Session.Registered), Ttl: durationpb.New(n.Session.TTL),
		State: string(n.Standing.State), Reason: n.Standing.Reason, ChangedBy: n.Standing.ChangedBy, ChangedAt: wire.ToTime(n.Standing.ChangedAt),
		CertificateExpiresAt: wire.ToTime(n.Standing.Certificate.ExpiresAt), CertificateIssuer: n.Standing.Certificate.Issuer,
	}
	if out.State == "" {
		out.State = string(store.NodeAdmitted)
	}
	return out
}

// RevokeNode implements the service.
func (s *People) RevokeNode(ctx context.Context, r *pb.RevokeNodeRequest) (*pb.RevokeNodeResponse, error) {
	p, err := access.PersonOf(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	left, err := s.Coordinator.RevokeNode(ctx, p, r.GetNode(), r.GetReason())
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.RevokeNodeResponse{Leases: int32(left.Leases), SilentIn: durationpb.New(left.SilentIn)}, nil
}

// RestoreNode implements the service.
func (s *People) RestoreNode(ctx context.Context, r *pb.RestoreNodeRequest) (*pb.RestoreNodeResponse, error) {
	p, err := access.PersonOf(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	if err := s.Coordinator.RestoreNode(ctx, p, r.GetNode(), r.GetReason()); err != nil {
		return nil, toStatus(err)
	}
	return &pb.RestoreNodeResponse{}, nil
}

// RemoveNode implements the service.
func (s *People) RemoveNode(ctx context.Context, r *pb.RemoveNodeRequest) (*pb.RemoveNodeResponse, error) {
	p, err := access.PersonOf(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	left, err := s.Coordinator.RemoveNode(ctx, p, r.GetNode(), r.GetReason())
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.RemoveNodeResponse{Leases: int32(left.Leases), SilentIn: durationpb.New(left.SilentIn)}, nil
}

// ListAudit implements the service.
func (s *People) ListAudit(ctx context.Context, r *pb.ListAuditRequest) (*pb.ListAuditResponse, error) {
	p, err := access.PersonOf(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	lines, err := s.Coordinator.Audit(ctx, p, r.GetScope(), int(r.GetLimit()))
	if err != nil {
		return nil, toStatus(err)
	}
	out := &pb.ListAuditResponse{}
	for _, a := range lines {
		out.Entries = append(out.Entries, toAudit(a))
	}
	return out, nil
}

// CreateJoinToken implements the service.
func (s *People) CreateJoinToken(ctx context.Context, r *pb.CreateJoinTokenRequest) (*pb.CreateJoinTokenResponse, error) {
	p, err := access.PersonOf(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	token, fingerprint, err := s.Coordinator.CreateJoinToken(ctx, p, r.GetTenants(), int(r.GetUses()), r.GetValidFor().AsDuration())
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.CreateJoinTokenResponse{Token: token, Fingerprint: fingerprint}, nil
}

// ListJoinTokens implements the service.
func (s *People) ListJoinTokens(ctx context.Context, _ *pb.ListJoinTokensRequest) (*pb.ListJoinTokensResponse, error) {
	p, err := access.PersonOf(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	tokens, err := s.Coordinator.JoinTokens(ctx, p)
	if err != nil {
		return nil, toStatus(err)
	}
	out := &pb.ListJoinTokensResponse{}
	for _, t := range tokens {
		out.Tokens = append(out.Tokens, &pb.JoinToken{
			Fingerprint: t.Fingerprint(), Tenants: t.Tenants, Uses: int32(t.Uses), UsesLeft: int32(t.UsesLeft),
			ExpiresAt: wire.ToTime(t.ExpiresAt), MadeBy: t.MadeBy, MadeAt: wire.ToTime(t.MadeAt),
		})
	}
	return out, nil
}

// RevokeJoinToken implements the service.
func (s *People) RevokeJoinToken(ctx context.Context, r *pb.RevokeJoinTokenRequest) (*pb.RevokeJoinTokenResponse, error) {
	p, err := access.PersonOf(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	if err := s.Coordinator.RevokeJoinToken(ctx, p, r.GetFingerprint()); err != nil {
		return nil, toStatus(err)
	}
	return &pb.RevokeJoinTokenResponse{}, nil
}

// Enrolment serves EnrollmentService; the join token is the proof.
type Enrolment struct {
	pb.UnsafeEnrollmentServiceServer

	Coordinator *coordinator.Coordinator
}

var _ pb.EnrollmentServiceServer = (*Enrolment)(nil)

// Enroll implements the service.
func (s *Enrolment) Enroll(ctx context.Context, r *pb.EnrollRequest) (*pb.EnrollResponse, error) {
	got, err := s.Coordinator.Enroll(ctx, r.GetToken(), r.GetNode(), r.GetCsrDer())
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.EnrollResponse{CertificateChainDer: got.Chain, CaDer: got.Roots}, nil
}
