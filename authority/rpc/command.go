package rpc

import (
	"context"

	"github.com/forgeyard/concurrency/authority/coordinator"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/wire"
)

func (s *stream) command(ctx context.Context, c *pb.Command) *pb.DownFrame {
	if err := s.own(c.GetSession(), c.GetNonce()); err != nil {
		return &pb.DownFrame{Body: fault(err)}
	}
	a, replayed, err := s.act(ctx, c)
	if err != nil {
		return &pb.DownFrame{Body: fault(err)}
	}
	return &pb.DownFrame{Body: &pb.DownFrame_Answer{Answer: wire.ToAnswer(a, replayed, s.service.Coordinator.StoreNow())}}
}

func (s *stream) act(ctx context.Context, c *pb.Command) (lease.Answer, bool, error) {
	uses, caller := s.service.Coordinator, s.caller()
	request := coordinator.Request{CommandID: c.GetCommandId(), Session: c.GetSession(), Nonce: c.GetNonce()}
	ref := func(r *pb.LeaseRef) coordinator.Ref {
		return coordinator.Ref{Request: request, Scope: r.GetScope(), Lease: r.GetLease(), Epoch: epoch.Epoch(r.GetEpoch())}
	}
	switch a := c.GetAction().(type) {
	case *pb.Command_Acquire:
		return uses.Acquire(ctx, caller, coordinator.Acquisition{
			Request: request, Scope: a.Acquire.GetScope(), LeaseID: a.Acquire.GetLeaseId(), Purpose: lease.Purpose(a.Acquire.GetPurpose()),
			Holder: lease.Holder{Kind: lease.HolderKind(a.Acquire.GetHolder().GetKind()), ID: a.Acquire.GetHolder().GetId()},
		})
	case *pb.Command_Claim:
		return uses.Claim(ctx, caller, ref(a.Claim))
	case *pb.Command_Renew:
		return uses.Renew(ctx, caller, ref(a.Renew.GetLease()), a.Renew.GetExtend().AsDuration())
	case *pb.Command_Release:
		q, err := fromQuiescence(a.Release.GetUnknownEffects(), a.Release.GetLeft())
		if err != nil {
			return lease.Answer{}, false, err
		}
		q.Partial = a.Release.GetPartial()
		return uses.Release(ctx, caller, ref(a.Release.GetLease()), lease.EndReason(a.Release.GetWhy()), q)
	case *pb.Command_Account:
		q, err := fromQuiescence(a.Account.GetUnknownEffects(), a.Account.GetLeft())
		if err != nil {
			return lease.Answer{}, false, err
		}
		return uses.Account(ctx, caller, ref(a.Account.GetLease()), q)
	case *pb.Command_Resolve:
		return uses.Resolve(ctx, caller, ref(a.Resolve.GetLease()), coordinator.Finding{
			Resolutions: wire.FromResolutions(a.Resolve.GetResolutions()), Reopen: a.Resolve.GetReopen(), Seen: a.Resolve.GetSeen(),
		})
	case *pb.Command_Close:
		return uses.Close(ctx, caller, request.CommandID, request.Session, request.Nonce)
	}
	return lease.Answer{}, false, &coordinator.InputError{Field: "action", Problem: "is not known to this version"}
}

func fromQuiescence(unknown int32, left []*pb.Effect) (lease.Quiescence, error) {
	effects, err := fromEffects("left", left)
	return lease.Quiescence{Unknown: int(unknown), Left: effects}, err
}

// fromEffects converts; what cannot be read is the sender's fault.
func fromEffects(field string, m []*pb.Effect) ([]effect.Effect, error) {
	effects, err := wire.FromEffects(m)
	if err != nil {
		return nil, &coordinator.InputError{Field: field, Problem: err.Error()}
	}
	return effects, nil
}
