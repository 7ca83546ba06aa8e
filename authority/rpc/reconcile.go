package rpc

import (
	"context"
	"time"

	"github.com/forgeyard/concurrency/authority/access"
	"github.com/forgeyard/concurrency/authority/coordinator"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/wire"
)

// ListBlocked implements the service.
func (s *People) ListBlocked(ctx context.Context, _ *pb.ListBlockedRequest) (*pb.ListBlockedResponse, error) {
	p, err := access.PersonOf(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	closed, err := s.Coordinator.Blocked(ctx, p)
	if err != nil {
		return nil, toStatus(err)
	}
	out := &pb.ListBlockedResponse{}
	for _, r := range closed {
		out.Scopes = append(out.Scopes, wire.ToClosed(r))
	}
	return out, nil
}

// GetEvidence implements the service.
func (s *People) GetEvidence(ctx context.Context, r *pb.GetEvidenceRequest) (*pb.GetEvidenceResponse, error) {
	p, err := access.PersonOf(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	left, err := s.Coordinator.EvidenceFor(ctx, p, r.GetScope())
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.GetEvidenceResponse{Evidence: toEvidence(left, s.Coordinator.StoreNow())}, nil
}

// ReconcileScope implements the service. The answer comes with the evidence.
func (s *People) ReconcileScope(ctx context.Context, r *pb.ReconcileScopeRequest) (*pb.ReconcileScopeResponse, error) {
	p, err := access.PersonOf(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	a, replayed, err := s.Coordinator.Reconcile(ctx, p, coordinator.PersonClaim{
		CommandID: r.GetCommandId(), Scope: r.GetScope(), Reason: r.GetReason(), For: r.GetKeepFor().AsDuration(),
	})
	if err != nil {
		return nil, toStatus(err)
	}
	answer := wire.ToAnswer(a, replayed, s.Coordinator.StoreNow())
	if a.Code != lease.Acquired {
		return nil, refused(r.GetScope(), a, answer)
	}
	left, err := s.Coordinator.EvidenceFor(ctx, p, r.GetScope())
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.ReconcileScopeResponse{Answer: answer, Evidence: toEvidence(left, s.Coordinator.StoreNow())}, nil
}

// ResolveScope implements the service.
func (s *People) ResolveScope(ctx context.Context, r *pb.ResolveScopeRequest) (*pb.ResolveScopeResponse, error) {
	p, err := access.PersonOf(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	a, replayed, err := s.Coordinator.ResolveFor(ctx, p, r.GetCommandId(), r.GetScope(), coordinator.Finding{
		Resolutions: wire.FromResolutions(r.GetResolutions()), Reopen: r.GetReopen(), Seen: r.GetSeen(),
	})
	if err != nil {
		return nil, toStatus(err)
	}
	answer := wire.ToAnswer(a, replayed, s.Coordinator.StoreNow())
	if a.Code == lease.Rejected {
		return nil, refused(r.GetScope(), a, answer)
	}
	return &pb.ResolveScopeResponse{Answer: answer}, nil
}

func toEvidence(l coordinator.Left, now time.Time) *pb.Evidence {
	out := &pb.Evidence{Scope: wire.ToClosed(l.Record), Complete: l.Complete()}
	if l.Holder != nil {
		out.Holder = wire.ToLease(*l.Holder, now)
	}
	for _, u := range l.Unsettled {
		out.Unsettled = append(out.Unsettled, wire.ToLease(u, now))
	}
	for _, e := range l.Effects {
		out.Effects = append(out.Effects, wire.ToReported(e))
	}
	return out
}
