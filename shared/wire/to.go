package wire

import (
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/lease"
)

// ToVersion converts.
func ToVersion(v lease.SetVersion) *pb.SetVersion {
	return &pb.SetVersion{Generation: uint32(v.Generation), Version: v.Version}
}

// ToHolder converts.
func ToHolder(h lease.Holder) *pb.Holder { return &pb.Holder{Kind: string(h.Kind), Id: h.ID} }

// ToTime leaves out the zero time.
func ToTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// ToLease carries the lease's own limit as a duration from now, the store's
// clock; the zero now leaves it out.
func ToLease(l lease.Lease, now time.Time) *pb.Lease {
	out := &pb.Lease{
		Id: l.ID, Scope: l.Scope.String(), Holder: ToHolder(l.Holder), Session: l.Session, Node: l.Node,
		Epoch: uint64(l.Epoch), Purpose: string(l.Purpose), State: string(l.State),
		AcquiredAt: ToTime(l.AcquiredAt), MaxUntil: ToTime(l.MaxUntil), EndedAt: ToTime(l.EndedAt),
		EndReason: string(l.EndReason), EndedBy: l.EndedBy, EndDetail: l.EndDetail,
		UnknownEffects: int32(l.Unknown), Exclusive: l.Exclusive,
		Unsettled: l.Unsettled, Accounted: l.Accounted, Confirm: l.Confirm,
	}
	for _, slot := range l.Slots {
		out.Slots = append(out.Slots, int32(slot))
	}
	if !l.MaxUntil.IsZero() && !now.IsZero() {
		out.MaxRemaining = durationpb.New(max(l.MaxUntil.Sub(now), 0))
	}
	return out
}

// ToSummary converts; nil stays nil.
func ToSummary(s *lease.Summary) *pb.Summary {
	if s == nil {
		return nil
	}
	return &pb.Summary{
		Scope: s.Scope.String(), Lease: s.Lease, Holder: ToHolder(s.Holder), Node: s.Node, Epoch: uint64(s.Epoch),
		State: string(s.State), Since: ToTime(s.Since), Alive: s.Alive, ExpiresIn: durationpb.New(s.ExpiresIn),
	}
}

// ToAnswer carries durations of a fresh answer only. now is the store's clock.
func ToAnswer(a lease.Answer, replayed bool, now time.Time) *pb.Answer {
	out := &pb.Answer{
		Code: string(a.Code), Reason: string(a.Reason), Detail: a.Detail, Version: ToVersion(a.Version),
		Holder: ToSummary(a.Holder), Epoch: uint64(a.Epoch), Receipt: a.Receipt, Replayed: replayed,
	}
	if a.Lease != nil {
		if replayed {
			now = time.Time{}
		}
		out.Lease = ToLease(*a.Lease, now)
	}
	if a.Remaining > 0 && !replayed {
		out.Remaining = durationpb.New(a.Remaining)
	}
	if a.RetryAfter > 0 {
		out.RetryAfter = durationpb.New(a.RetryAfter)
	}
	return out
}

// ToEffect converts; node is where the effect was journalled. What callers and
// providers wrote into it is made plain: a message with other bytes could not be
// sent at all.
func ToEffect(e effect.Effect, node string) *pb.Effect {
	return &pb.Effect{
		Id: e.ID, Lease: e.Lease, Scope: e.Scope.String(), Epoch: uint64(e.Epoch), Node: node,
		Provider: plain(e.Provider), Operation: plain(e.Operation), RetrySafety: string(e.Safety), IdempotencyKey: plain(e.Key),
		State: string(e.State), Reason: plain(e.Reason), Status: int32(e.Status),
		StartedAt: ToTime(e.StartedAt), SettledAt: ToTime(e.SettledAt), RequestDigest: e.Digest[:],
	}
}

// mostText bounds a text that is not ours, in bytes.
const mostText = 480

// plain is text that every message and store can carry: UTF-8 without NUL, not
// too long.
func plain(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) <= mostText {
		return text
	}
	cut := mostText
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "..."
}
