package localapi

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/shared/wire"
	"github.com/forgeyard/concurrency/sidecar/keeper"
)

// Pacing of questions to the authority. Its hint only shortens the wait for the
// next one about blocked scopes.
const (
	blockedEvery  = 5 * time.Second
	answerTimeout = 5 * time.Second // for the authority to say anything at all
)

// Evidence implements pb.LocalServiceServer.
func (v *service) Evidence(ctx context.Context, r *pb.EvidenceRequest) (*pb.EvidenceResponse, error) {
	if _, err := peerOf(ctx); err != nil {
		return nil, toStatus(err)
	}
	if _, err := scope.Parse(r.GetScope()); err != nil {
		return nil, toStatus(err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	e, err := v.s.cfg.Authority.Evidence(ctx, r.GetScope())
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.EvidenceResponse{Evidence: toEvidence(e)}, nil
}

func toEvidence(e keeper.Evidence) *pb.Evidence {
	out := &pb.Evidence{Scope: wire.ToClosed(e.Record), Complete: e.Complete}
	if e.Holder != nil {
		out.Holder = wire.ToLease(*e.Holder, time.Time{})
	}
	for _, l := range e.Unsettled {
		out.Unsettled = append(out.Unsettled, wire.ToLease(l, time.Time{}))
	}
	for _, one := range e.Effects {
		out.Effects = append(out.Effects, wire.ToReported(one))
	}
	return out
}

// Resolve implements pb.LocalServiceServer. What was resolved is settled in
// this node's journal too, where it has the effect: its idempotency key is
// answered from there.
func (v *service) Resolve(ctx context.Context, r *pb.LocalResolveRequest) (*pb.LocalResolveResponse, error) {
	key, held, err := v.own(ctx, r.GetHoldKey())
	if err != nil {
		return nil, toStatus(err)
	}
	found := keeper.Finding{Resolutions: wire.FromResolutions(r.GetResolutions()), Reopen: r.GetReopen(), Seen: r.GetSeen()}
	a, err := v.s.cfg.Keeper.Resolve(ctx, key, found)
	if err != nil {
		return nil, toStatus(err)
	}
	if a.Code == lease.Rejected {
		return nil, toStatus(&unresolvedError{scope: held.Term.Scope, answer: a})
	}
	for _, said := range found.Resolutions {
		v.s.cfg.Effects.Reconcile(said)
	}
	v.s.Wake() // what waits may have changed
	return &pb.LocalResolveResponse{Code: string(a.Code), Detail: a.Detail}, nil
}

// unresolvedError is the authority's refusal of what a reconciler found.
type unresolvedError struct {
	scope  scope.Scope
	answer lease.Answer
}

// Error implements error.
func (e *unresolvedError) Error() string {
	return fmt.Sprintf("%s was not resolved: %s: %s", e.scope, e.answer.Reason, e.answer.Detail)
}

// WatchBlocked implements pb.LocalServiceServer.
func (v *service) WatchBlocked(r *pb.WatchBlockedRequest, stream grpc.ServerStreamingServer[pb.WatchBlockedResponse]) error {
	return toStatus(v.watchBlocked(stream.Context(), r.GetKinds(), stream.Send))
}

// watchBlocked asks on an interval, and at once when it was hinted to; while
// the authority is away it says nothing.
func (v *service) watchBlocked(ctx context.Context, kinds []string, send func(*pb.WatchBlockedResponse) error) error {
	if _, err := peerOf(ctx); err != nil {
		return err
	}
	if err := checkKinds(kinds); err != nil {
		return err
	}
	timer := v.s.cfg.Clock.NewTimer(blockedEvery)
	defer timer.Stop()
	var last *pb.WatchBlockedResponse
	for {
		hinted := v.s.hint.next()
		if now, err := v.blocked(ctx, kinds); err == nil && (last == nil || !proto.Equal(now, last)) {
			if err := send(now); err != nil {
				return err
			}
			last = now
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-v.s.root.Done():
			return keeper.ErrStopped
		case <-hinted:
		case <-timer.C():
		}
		timer.Reset(blockedEvery)
	}
}

func (v *service) blocked(ctx context.Context, kinds []string) (*pb.WatchBlockedResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	scopes, err := v.s.cfg.Authority.Blocked(ctx, kinds)
	if err != nil {
		return nil, err
	}
	out := &pb.WatchBlockedResponse{}
	for _, r := range scopes {
		out.Scopes = append(out.Scopes, wire.ToClosed(r))
	}
	return out, nil
}

func checkKinds(kinds []string) error {
	if len(kinds) == 0 {
		return &inputError{"kinds", "", fmt.Sprintf("must name at least one of %v", scope.Kinds())}
	}
	for _, k := range kinds {
		if !slices.Contains(scope.Kinds(), scope.Kind(k)) {
			return &inputError{"kinds", k, fmt.Sprintf("must be of %v", scope.Kinds())}
		}
	}
	return nil
}

// Wake tells every WatchBlocked to ask now.
func (s *Server) Wake() { s.hint.give() }

// hint wakes whoever waits; it holds nothing.
type hint struct {
	mu      sync.Mutex
	waiting chan struct{}
}

// next is closed by the next hint.
func (h *hint) next() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting == nil {
		h.waiting = make(chan struct{})
	}
	return h.waiting
}

func (h *hint) give() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting != nil {
		close(h.waiting)
		h.waiting = nil
	}
}
