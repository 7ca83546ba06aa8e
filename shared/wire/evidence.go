package wire

import (
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/lease"
)

// ToClosed converts.
func ToClosed(r lease.Record) *pb.ClosedState {
	return &pb.ClosedState{
		Scope: r.Scope.String(), State: string(r.State), Epoch: uint64(r.Epoch), Reason: r.Reason, Forgotten: r.Forgotten,
	}
}

// ToReported converts.
func ToReported(e lease.Evidence) *pb.ReportedEffect {
	out := &pb.ReportedEffect{Effect: ToEffect(e.Effect, e.Node), ReportedAt: ToTime(e.ReportedAt)}
	if o := e.Observation; o != nil {
		out.Resolution = &pb.Resolution{Effect: e.Effect.ID, Outcome: string(o.Outcome), Seen: o.Seen}
		out.ResolvedBy, out.ResolvedAt = o.By, ToTime(o.At)
	}
	return out
}

// FromResolutions converts; the rules check what they say.
func FromResolutions(all []*pb.Resolution) []lease.Resolution {
	var out []lease.Resolution
	for _, r := range all {
		out = append(out, lease.Resolution{Effect: r.GetEffect(), Outcome: effect.State(r.GetOutcome()), Seen: r.GetSeen()})
	}
	return out
}
