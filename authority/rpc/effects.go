package rpc

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/authority/coordinator"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/wire"
)

// reportPatience is how long the answer to a heartbeat waits for its effects to
// be stored: a lease must not be lost over its evidence. What comes later is
// sent again.
const reportPatience = 200 * time.Millisecond

// report stores the effects of a heartbeat beside it; taken says whether they
// are stored.
func (s *stream) report(ctx context.Context, m []*pb.Effect) (taken func() bool) {
	if len(m) == 0 {
		return func() bool { return false }
	}
	ctx, cancel := context.WithTimeout(ctx, reportPatience)
	stored := make(chan error, 1)
	go func() {
		effects, err := fromEffects("effects", m)
		if err == nil {
			err = s.service.Coordinator.Report(ctx, s.caller(), effects)
		}
		stored <- err
		cancel()
	}()
	return func() bool {
		<-ctx.Done()
		var err error
		select {
		case err = <-stored:
		default:
			err = ctx.Err()
		}
		if err != nil {
			s.service.Log.Warn("store reported effects", zap.String("node", s.peer.Node), zap.Int("effects", len(m)), zap.Error(err))
		}
		return err == nil
	}
}

// confirm says whether an effect may be sent now.
func (s *stream) confirm(ctx context.Context, c *pb.Confirm) *pb.DownFrame {
	if err := s.own(c.GetSession(), c.GetNonce()); err != nil {
		return &pb.DownFrame{Body: fault(err)}
	}
	effects, err := fromEffects("effect", []*pb.Effect{c.GetEffect()})
	if err != nil {
		return &pb.DownFrame{Body: fault(err)}
	}
	r := c.GetLease()
	a, err := s.service.Coordinator.Confirm(ctx, s.caller(), coordinator.Ref{
		Request: coordinator.Request{Session: c.GetSession(), Nonce: c.GetNonce()},
		Scope:   r.GetScope(), Lease: r.GetLease(), Epoch: epoch.Epoch(r.GetEpoch()),
	}, effects[0])
	if err != nil {
		return &pb.DownFrame{Body: fault(err)}
	}
	return &pb.DownFrame{Body: &pb.DownFrame_Answer{Answer: wire.ToAnswer(a, false, time.Time{})}}
}

// evidence tells a node's reconciler what a scope's former holders left.
func (s *stream) evidence(ctx context.Context, q *pb.EvidenceQuery) *pb.DownFrame {
	left, err := s.service.Coordinator.Evidence(ctx, s.caller(), q.GetScope())
	if err != nil {
		return &pb.DownFrame{Body: fault(err)}
	}
	return &pb.DownFrame{Body: &pb.DownFrame_Evidence{Evidence: toEvidence(left, s.service.Coordinator.StoreNow())}}
}

// blocked lists what waits for a node's reconcilers.
func (s *stream) blocked(ctx context.Context, q *pb.BlockedQuery) *pb.DownFrame {
	records, err := s.service.Coordinator.BlockedFor(ctx, s.caller(), q.GetKinds())
	if err != nil {
		return &pb.DownFrame{Body: fault(err)}
	}
	out := &pb.BlockedScopes{}
	for _, r := range records {
		out.Scopes = append(out.Scopes, wire.ToClosed(r))
	}
	return &pb.DownFrame{Body: &pb.DownFrame_Blocked{Blocked: out}}
}
