package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/identity"
)

const token = "correct-horse"

// serveAuthority serves fixed answers over TLS and returns the operator's
// configuration file.
func serveAuthority(t *testing.T) string {
	t.Helper()
	ca, err := identity.NewCA(time.Now(), identity.DefaultTrustDomain)
	require.NoError(t, err)
	cert, err := ca.IssueServer([]string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}, time.Now(), time.Hour)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, ca.Save(dir))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13})), grpc.UnaryInterceptor(authorized))
	pb.RegisterConcurrencyServiceServer(srv, scripted{})
	go func() { _ = srv.Serve(l) }() // ends with Stop
	t.Cleanup(srv.Stop)
	return operatorFile(t, dir, l.Addr().String(), token)
}

func operatorFile(t *testing.T, dir, address, secret string) string {
	t.Helper()
	file := filepath.Join(dir, "operator.yaml")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "token"), []byte(secret+"\n"), 0o600))
	text := "address: " + address + "\nca: " + filepath.Join(dir, "ca.pem") + "\ntoken_file: " + filepath.Join(dir, "token") + "\n"
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func authorized(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if got := md.Get("authorization"); len(got) != 1 || got[0] != "Bearer "+token {
		return nil, status.Error(codes.Unauthenticated, "the bearer token is not known")
	}
	return handler(ctx, req)
}

// scripted is an authority in one fixed moment.
type scripted struct {
	pb.UnimplementedConcurrencyServiceServer
}

func at(minute int) *timestamppb.Timestamp {
	return timestamppb.New(time.Date(2026, 1, 2, 15, minute, 5, 0, time.UTC))
}

func holder() *pb.Holder { return &pb.Holder{Kind: "deployment", Id: "web-42"} }

func summary() *pb.Summary {
	return &pb.Summary{
		Scope: prod, Lease: "01JF8Z6M000000000000000001", Holder: holder(), Node: "node-b", Epoch: 18446744073709551615,
		State: "live", Since: at(4), Alive: true, ExpiresIn: durationpb.New(12300 * time.Millisecond),
	}
}

func liveLease() *pb.Lease {
	return &pb.Lease{
		Id: "01JF8Z6M000000000000000001", Scope: prod, Slots: []int32{0}, Exclusive: true, Holder: holder(), Session: "01JF8Z6M00000000000SESSION",
		Node: "node-b", Epoch: 18446744073709551615, Purpose: "hold", State: "live", AcquiredAt: at(4),
	}
}

func endedLease() *pb.Lease {
	return &pb.Lease{
		Id: "01JF8Z6M000000000000000000", Scope: prod, Holder: &pb.Holder{Kind: "deployment", Id: "web-41"}, Node: "node-a", Epoch: 7, State: "ended",
		AcquiredAt: at(1), EndedAt: at(3), EndReason: "caller-gone", EndedBy: "node-a", EndDetail: "ended with 2 unknown effects", UnknownEffects: 2,
	}
}

func (scripted) GetStatus(context.Context, *pb.GetStatusRequest) (*pb.GetStatusResponse, error) {
	return &pb.GetStatusResponse{
		AuthorityId: "01JF8Z6M0000000000AUTHORITY", Generation: 3, Store: "postgres", Software: "test", NodesConnected: 2, SessionsAlive: 2,
		LeasesLive: 1, ScopesBlocked: 1, TimePause: true, TimePauseRemaining: durationpb.New(7500 * time.Millisecond),
	}, nil
}

func (scripted) ListLeases(_ context.Context, r *pb.ListLeasesRequest) (*pb.ListLeasesResponse, error) {
	list := &pb.ListLeasesResponse{Leases: []*pb.LeaseRow{{Lease: liveLease(), Alive: true, ExpiresIn: durationpb.New(12300 * time.Millisecond)}}}
	if r.GetEnded() {
		list.Leases = append(list.Leases, &pb.LeaseRow{Lease: endedLease()})
	}
	return list, nil
}

func (scripted) ListNodes(context.Context, *pb.ListNodesRequest) (*pb.ListNodesResponse, error) {
	return &pb.ListNodesResponse{Nodes: []*pb.Node{
		{Name: "node-a", RegisteredAt: at(0), Ttl: durationpb.New(15 * time.Second), State: "revoked", Reason: "stolen", ChangedBy: "person:ann", ChangedAt: at(3), CertificateExpiresAt: at(50)},
		{Name: "node-b", State: "admitted", CertificateExpiresAt: at(40), Connected: true, Via: "authority-1:7401", Alive: true, ExpiresIn: durationpb.New(12300 * time.Millisecond), Leases: 1, RegisteredAt: at(2), Ttl: durationpb.New(15 * time.Second)},
	}}, nil
}

func (scripted) ListAudit(context.Context, *pb.ListAuditRequest) (*pb.ListAuditResponse, error) {
	return &pb.ListAuditResponse{Entries: []*pb.AuditEntry{
		{At: at(3), Actor: "person:ann", Action: "node-revoked", Node: "node-a", Reason: "stolen"},
		{At: at(1), Actor: "token:00112233445566ff", Action: "node-enrolled", Node: "node-a", Reason: "for acme"},
	}}, nil
}

func (scripted) RevokeNode(_ context.Context, r *pb.RevokeNodeRequest) (*pb.RevokeNodeResponse, error) {
	return &pb.RevokeNodeResponse{Leases: int32(len(r.GetReason())), SilentIn: durationpb.New(17500 * time.Millisecond)}, nil
}

func (scripted) RestoreNode(context.Context, *pb.RestoreNodeRequest) (*pb.RestoreNodeResponse, error) {
	return &pb.RestoreNodeResponse{}, nil
}

func (scripted) RemoveNode(context.Context, *pb.RemoveNodeRequest) (*pb.RemoveNodeResponse, error) {
	return &pb.RemoveNodeResponse{}, nil
}

func (scripted) ListJoinTokens(context.Context, *pb.ListJoinTokensRequest) (*pb.ListJoinTokensResponse, error) {
	return &pb.ListJoinTokensResponse{Tokens: []*pb.JoinToken{
		{Fingerprint: "00112233445566ff", Tenants: []string{"acme", "globex"}, Uses: 3, UsesLeft: 2, ExpiresAt: at(50), MadeBy: "person:ann", MadeAt: at(1)},
		{Fingerprint: "ff66554433221100", Tenants: []string{"acme"}, UsesLeft: 0, ExpiresAt: at(2)},
	}}, nil
}

func (scripted) RevokeJoinToken(_ context.Context, r *pb.RevokeJoinTokenRequest) (*pb.RevokeJoinTokenResponse, error) {
	if r.GetFingerprint() != "00112233445566ff" {
		return nil, status.Errorf(codes.NotFound, "join token %s: not found", r.GetFingerprint())
	}
	return &pb.RevokeJoinTokenResponse{}, nil
}

func (scripted) ListEffects(context.Context, *pb.ListEffectsRequest) (*pb.ListEffectsResponse, error) {
	return &pb.ListEffectsResponse{UnreachableNodes: []string{"node-a"}, Effects: []*pb.Effect{
		{Id: "01JF8Z6M0000000000000EFFECT", Scope: prod, Epoch: 7, Node: "node-b", Provider: "tracker", Operation: "PUT /plan", State: "failed", Reason: "stale-epoch", StartedAt: at(3)},
	}}, nil
}

func (scripted) ExplainScope(_ context.Context, r *pb.ExplainScopeRequest) (*pb.ExplainScopeResponse, error) {
	if r.GetScope() != prod {
		return nil, status.Errorf(codes.InvalidArgument, "scope %q: must read tenant/kind:name", r.GetScope())
	}
	return &pb.ExplainScopeResponse{
		Scope: prod, State: "owned", Epoch: 18446744073709551615, Holder: summary(), Recent: []*pb.Lease{endedLease()},
		Policy: &pb.Policy{Requirement: "strict", OnUncleanEnd: "block", Source: "rules[0]"},
		Advice: []string{"wait for it: forgeyard run --wait 10m", "or end it: forgeyard concurrency force-release"},
		Audit:  []*pb.AuditEntry{{At: at(3), Actor: "node node-a", Action: "ended", Epoch: 7, Reason: "caller-gone"}},
	}, nil
}

func (scripted) ForceRelease(_ context.Context, r *pb.ForceReleaseRequest) (*pb.ForceReleaseResponse, error) {
	if r.GetEpoch() != summary().GetEpoch() {
		return &pb.ForceReleaseResponse{Answer: &pb.Answer{Code: "rejected", Reason: "wrong-epoch", Detail: "epoch 7: the holder has 18446744073709551615", Holder: summary()}}, nil
	}
	return &pb.ForceReleaseResponse{Answer: &pb.Answer{Code: "draining", Detail: "until the node is silent: " + r.GetReason(), Lease: liveLease()}}, nil
}

func (scripted) CreateJoinToken(_ context.Context, r *pb.CreateJoinTokenRequest) (*pb.CreateJoinTokenResponse, error) {
	return &pb.CreateJoinTokenResponse{Token: fmt.Sprintf("join-%v-%d-%s", r.GetTenants(), r.GetUses(), r.GetValidFor().AsDuration())}, nil
}
