package rpc

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/lease"
)

func toVersion(v lease.SetVersion) *pb.SetVersion {
	return &pb.SetVersion{Generation: uint32(v.Generation), Version: v.Version}
}

func toHolder(h lease.Holder) *pb.Holder {
	return &pb.Holder{Kind: string(h.Kind), Id: h.ID}
}

// toTime leaves out the zero time.
func toTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// toLease carries the lease's own limit as a duration from now, the store's
// clock; the zero now leaves it out.
func toLease(l lease.Lease, now time.Time) *pb.Lease {
	out := &pb.Lease{
		Id: l.ID, Scope: l.Scope.String(), Holder: toHolder(l.Holder), Session: l.Session, Node: l.Node,
		Epoch: uint64(l.Epoch), Purpose: string(l.Purpose), State: string(l.State),
		AcquiredAt: toTime(l.AcquiredAt), MaxUntil: toTime(l.MaxUntil), EndedAt: toTime(l.EndedAt),
		EndReason: string(l.EndReason), EndedBy: l.EndedBy, EndDetail: l.EndDetail,
		UnknownEffects: int32(l.Unknown), Exclusive: l.Exclusive,
	}
	for _, slot := range l.Slots {
		out.Slots = append(out.Slots, int32(slot))
	}
	if !l.MaxUntil.IsZero() && !now.IsZero() {
		out.MaxRemaining = durationpb.New(max(l.MaxUntil.Sub(now), 0))
	}
	return out
}

func toSummary(s *lease.Summary) *pb.Summary {
	if s == nil {
		return nil
	}
	return &pb.Summary{
		Scope: s.Scope.String(), Lease: s.Lease, Holder: toHolder(s.Holder), Node: s.Node, Epoch: uint64(s.Epoch),
		State: string(s.State), Since: toTime(s.Since), Alive: s.Alive, ExpiresIn: durationpb.New(s.ExpiresIn),
	}
}

// toAnswer carries durations of a fresh answer only: a replayed one extends
// nothing (DESIGN 3, Session 6).
func toAnswer(a lease.Answer, replayed bool, now time.Time) *pb.Answer {
	out := &pb.Answer{
		Code: string(a.Code), Reason: string(a.Reason), Detail: a.Detail, Version: toVersion(a.Version),
		Holder: toSummary(a.Holder), Epoch: uint64(a.Epoch), Receipt: a.Receipt, Replayed: replayed,
	}
	if a.Lease != nil {
		if replayed {
			now = time.Time{}
		}
		out.Lease = toLease(*a.Lease, now)
	}
	if a.Remaining > 0 && !replayed {
		out.Remaining = durationpb.New(a.Remaining)
	}
	if a.RetryAfter > 0 {
		out.RetryAfter = durationpb.New(a.RetryAfter)
	}
	return out
}

func toEffect(e effect.Effect, node string) *pb.Effect {
	return &pb.Effect{
		Id: e.ID, Lease: e.Lease, Scope: e.Scope.String(), Epoch: uint64(e.Epoch), Node: node,
		Provider: e.Provider, Operation: e.Operation, RetrySafety: string(e.Safety), IdempotencyKey: e.Key,
		State: string(e.State), Reason: e.Reason, Status: int32(e.Status),
		StartedAt: toTime(e.StartedAt), SettledAt: toTime(e.SettledAt), RequestDigest: e.Digest[:],
	}
}

func toAudit(a lease.Audit) *pb.AuditEntry {
	return &pb.AuditEntry{
		At: toTime(a.At), Actor: a.Actor, Action: a.Action, Scope: a.Scope, Lease: a.Lease,
		Node: a.Node, Epoch: uint64(a.Epoch), Reason: a.Reason,
	}
}

func toPolicy(p lease.Policy, source string) *pb.Policy {
	return &pb.Policy{
		Requirement: string(p.Requirement), MinTtl: durationpb.New(p.MinTTL), MaxTtl: durationpb.New(p.MaxTTL),
		LockDelay: durationpb.New(p.LockDelay), ClaimTimeout: durationpb.New(p.ClaimTimeout), MaxHold: durationpb.New(p.MaxHold),
		OnUncleanEnd: string(p.OnUncleanEnd), Supersedable: p.Supersedable, Source: source,
	}
}
