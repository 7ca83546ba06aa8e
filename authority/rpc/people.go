package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/forgeyard/concurrency/authority/access"
	"github.com/forgeyard/concurrency/authority/coordinator"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/wire"
)

// People serves ConcurrencyService; the caller is in the context.
type People struct {
	pb.UnsafeConcurrencyServiceServer

	Coordinator *coordinator.Coordinator
}

var _ pb.ConcurrencyServiceServer = (*People)(nil)

// GetStatus implements the service.
func (s *People) GetStatus(ctx context.Context, _ *pb.GetStatusRequest) (*pb.GetStatusResponse, error) {
	p, err := access.PersonOf(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	st, err := s.Coordinator.Status(ctx, p)
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.GetStatusResponse{
		AuthorityId: st.AuthorityID, Incarnation: st.Incarnation, Generation: uint32(st.Generation),
		Store: st.Store, Software: st.Software, NodesConnected: int32(st.NodesConnected), SessionsAlive: int32(st.SessionsAlive),
		LeasesLive: int32(st.LeasesLive), LeasesDraining: int32(st.LeasesDraining), ScopesBlocked: int32(st.ScopesBlocked),
		TimePause: st.Pause > 0, TimePauseRemaining: durationpb.New(st.Pause),
	}, nil
}

// ListLeases implements the service.
func (s *People) ListLeases(ctx context.Context, r *pb.ListLeasesRequest) (*pb.ListLeasesResponse, error) {
	p, err := access.PersonOf(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	rows, err := s.Coordinator.Leases(ctx, p, coordinator.LeaseQuery{
		Scope: r.GetScope(), Node: r.GetNode(), Ended: r.GetEnded(), Limit: int(r.GetLimit()),
	})
	if err != nil {
		return nil, toStatus(err)
	}
	out := &pb.ListLeasesResponse{}
	now := s.Coordinator.StoreNow()
	for _, row := range rows {
		out.Leases = append(out.Leases, &pb.LeaseRow{Lease: wire.ToLease(row.Lease, now), Alive: row.Alive, ExpiresIn: durationpb.New(row.ExpiresIn)})
	}
	return out, nil
}

// ListEffects implements the service.
func (s *People) ListEffects(ctx context.Context, r *pb.ListEffectsRequest) (*pb.ListEffectsResponse, error) {
	p, err := access.PersonOf(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	rows, unreachable, err := s.Coordinator.Effects(ctx, p, coordinator.EffectQuery{
		Node: r.GetNode(), Scope: r.GetScope(), State: r.GetState(), Limit: int(r.GetLimit()),
	})
	if err != nil {
		return nil, toStatus(err)
	}
	out := &pb.ListEffectsResponse{UnreachableNodes: unreachable}
	for _, row := range rows {
		out.Effects = append(out.Effects, wire.ToEffect(row.Effect, row.Node))
	}
	return out, nil
}

// ExplainScope implements the service.
func (s *People) ExplainScope(ctx context.Context, r *pb.ExplainScopeRequest) (*pb.ExplainScopeResponse, error) {
	p, err := access.PersonOf(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	x, err := s.Coordinator.Explain(ctx, p, r.GetScope())
	if err != nil {
		return nil, toStatus(err)
	}
	out := &pb.ExplainScopeResponse{
		Scope: x.Scope.String(), State: x.State, Epoch: uint64(x.Epoch), Reason: x.Reason,
		Holder: wire.ToSummary(x.Holder), Advice: x.Advice, Policy: toPolicy(x.Policy, x.PolicyFrom),
	}
	if x.Drain != nil {
		out.DrainReason = string(x.Drain.Reason)
	}
	for _, h := range x.Holds {
		out.Holds = append(out.Holds, &pb.Hold{
			Lease: h.Lease, Scope: h.Scope, Epoch: uint64(h.Epoch), State: h.State, Reason: h.Reason,
			InFlight: int32(h.InFlight), UnknownEffects: int32(h.Unknown), Holder: wire.ToHolder(h.Holder),
		})
	}
	now := s.Coordinator.StoreNow()
	for _, l := range x.Recent {
		out.Recent = append(out.Recent, wire.ToLease(l, now))
	}
	for _, a := range x.Audit {
		out.Audit = append(out.Audit, toAudit(a))
	}
	return out, nil
}

// ForceRelease implements the service. A wrong epoch is an error with the
// answer, which shows the present holder, in its details (FC-84).
func (s *People) ForceRelease(ctx context.Context, r *pb.ForceReleaseRequest) (*pb.ForceReleaseResponse, error) {
	p, err := access.PersonOf(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	a, replayed, err := s.Coordinator.ForceRelease(ctx, p, coordinator.ForceRelease{
		CommandID: r.GetCommandId(), Scope: r.GetScope(), Epoch: epoch.Epoch(r.GetEpoch()),
		Reason: r.GetReason(), AcceptUnreconciled: r.GetAcceptUnreconciled(),
	})
	if err != nil {
		return nil, toStatus(err)
	}
	answer := wire.ToAnswer(a, replayed, s.Coordinator.StoreNow())
	if a.Code == lease.Rejected {
		return nil, refused(r.GetScope(), a, answer)
	}
	return &pb.ForceReleaseResponse{Answer: answer}, nil
}
