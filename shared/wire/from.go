package wire

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// FromVersion converts; nil is the zero version.
func FromVersion(v *pb.SetVersion) lease.SetVersion {
	return lease.SetVersion{Generation: epoch.Generation(v.GetGeneration()), Version: v.GetVersion()}
}

// FromHolder converts.
func FromHolder(h *pb.Holder) lease.Holder {
	return lease.Holder{Kind: lease.HolderKind(h.GetKind()), ID: h.GetId()}
}

// FromTime is the zero time for nil.
func FromTime(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

// FromLease converts. Its own limit stays a duration on the message: it counts
// from the sending of the request.
func FromLease(m *pb.Lease) (lease.Lease, error) {
	s, err := scope.Parse(m.GetScope())
	if err != nil {
		return lease.Lease{}, fmt.Errorf("lease %s: %w", m.GetId(), err)
	}
	l := lease.Lease{
		ID: m.GetId(), Scope: s, Exclusive: m.GetExclusive(), Holder: FromHolder(m.GetHolder()), Session: m.GetSession(),
		Node: m.GetNode(), Epoch: epoch.Epoch(m.GetEpoch()), Purpose: lease.Purpose(m.GetPurpose()), State: lease.State(m.GetState()),
		AcquiredAt: FromTime(m.GetAcquiredAt()), MaxUntil: FromTime(m.GetMaxUntil()), EndedAt: FromTime(m.GetEndedAt()),
		EndReason: lease.EndReason(m.GetEndReason()), EndedBy: m.GetEndedBy(), EndDetail: m.GetEndDetail(),
		Unknown: int(m.GetUnknownEffects()), Unsettled: m.GetUnsettled(), Accounted: m.GetAccounted(), Confirm: m.GetConfirm(),
	}
	for _, slot := range m.GetSlots() {
		l.Slots = append(l.Slots, int(slot))
	}
	return l, nil
}

// FromSummary converts; nil stays nil.
func FromSummary(m *pb.Summary) (*lease.Summary, error) {
	if m == nil {
		return nil, nil
	}
	s, err := scope.Parse(m.GetScope())
	if err != nil {
		return nil, fmt.Errorf("holder: %w", err)
	}
	return &lease.Summary{
		Scope: s, Lease: m.GetLease(), Holder: FromHolder(m.GetHolder()), Node: m.GetNode(), Epoch: epoch.Epoch(m.GetEpoch()),
		State: lease.State(m.GetState()), Since: FromTime(m.GetSince()), Alive: m.GetAlive(), ExpiresIn: m.GetExpiresIn().AsDuration(),
	}, nil
}

// FromAnswer converts. Remaining is the smaller of the session's and the
// lease's own, as the gate trusts it.
func FromAnswer(m *pb.Answer) (lease.Answer, error) {
	a := lease.Answer{
		Code: lease.Code(m.GetCode()), Reason: lease.Reason(m.GetReason()), Detail: m.GetDetail(), Version: FromVersion(m.GetVersion()),
		Epoch: epoch.Epoch(m.GetEpoch()), Receipt: m.GetReceipt(),
		Remaining: m.GetRemaining().AsDuration(), RetryAfter: m.GetRetryAfter().AsDuration(),
	}
	var err error
	if a.Holder, err = FromSummary(m.GetHolder()); err != nil {
		return a, err
	}
	if m.GetLease() != nil {
		l, err := FromLease(m.GetLease())
		if err != nil {
			return a, err
		}
		a.Lease = &l
	}
	return a, nil
}

// FromEffect converts.
func FromEffect(m *pb.Effect) (effect.Effect, error) {
	s, err := scope.Parse(m.GetScope())
	if err != nil {
		return effect.Effect{}, fmt.Errorf("effect %s: %w", m.GetId(), err)
	}
	e := effect.Effect{
		ID: m.GetId(), Lease: m.GetLease(), Scope: s, Epoch: epoch.Epoch(m.GetEpoch()), Provider: m.GetProvider(),
		Operation: m.GetOperation(), Safety: effect.Safety(m.GetRetrySafety()), Key: m.GetIdempotencyKey(),
		State: effect.State(m.GetState()), Reason: m.GetReason(), Status: int(m.GetStatus()),
		StartedAt: FromTime(m.GetStartedAt()), SettledAt: FromTime(m.GetSettledAt()),
	}
	copy(e.Digest[:], m.GetRequestDigest())
	return e, nil
}
