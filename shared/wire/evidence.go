package wire

import (
	"fmt"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
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

// FromClosed converts.
func FromClosed(m *pb.ClosedState) (lease.Record, error) {
	s, err := scope.Parse(m.GetScope())
	if err != nil {
		return lease.Record{}, fmt.Errorf("scope: %w", err)
	}
	return lease.Record{
		Scope: s, State: lease.ScopeState(m.GetState()), Epoch: epoch.Epoch(m.GetEpoch()), Reason: m.GetReason(), Forgotten: m.GetForgotten(),
	}, nil
}

// FromReported converts.
func FromReported(m *pb.ReportedEffect) (lease.Evidence, error) {
	e, err := FromEffect(m.GetEffect())
	if err != nil {
		return lease.Evidence{}, err
	}
	out := lease.Evidence{Effect: e, Node: m.GetEffect().GetNode(), ReportedAt: FromTime(m.GetReportedAt())}
	if r := m.GetResolution(); r != nil {
		out.Observation = &lease.Observation{
			Outcome: effect.State(r.GetOutcome()), Seen: r.GetSeen(), By: m.GetResolvedBy(), At: FromTime(m.GetResolvedAt()),
		}
	}
	return out, nil
}

// ToResolutions converts.
func ToResolutions(all []lease.Resolution) []*pb.Resolution {
	var out []*pb.Resolution
	for _, r := range all {
		out = append(out, &pb.Resolution{Effect: r.Effect, Outcome: string(r.Outcome), Seen: r.Seen})
	}
	return out
}

// ToEffects converts; node is where the effects were journalled.
func ToEffects(all []effect.Effect, node string) []*pb.Effect {
	var out []*pb.Effect
	for _, e := range all {
		out = append(out, ToEffect(e, node))
	}
	return out
}

// FromEffects converts.
func FromEffects(all []*pb.Effect) ([]effect.Effect, error) {
	var out []effect.Effect
	for _, m := range all {
		e, err := FromEffect(m)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}
