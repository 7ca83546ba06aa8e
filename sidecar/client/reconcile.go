package client

import (
	"context"
	"fmt"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/shared/wire"
)

// Evidence is what is known of what the former holders of a scope left behind.
type Evidence struct {
	Record    lease.Record
	Unsettled []lease.Lease    // leases that ended uncleanly
	Effects   []lease.Evidence // open and unknown ones first
	Complete  bool             // else there may be effects that nobody reported
}

// Evidence asks the authority about a scope. Errors: ErrUnreachable,
// *RefusedError, ctx's.
func (c *Client) Evidence(ctx context.Context, s scope.Scope) (Evidence, error) {
	m, err := c.api.Evidence(ctx, &pb.EvidenceRequest{Scope: s.String()})
	if err != nil {
		return Evidence{}, fmt.Errorf("evidence of %s: %w", s, translate(err))
	}
	e, err := fromEvidence(m.GetEvidence())
	if err != nil {
		return Evidence{}, fmt.Errorf("evidence of %s: %w", s, err)
	}
	return e, nil
}

func fromEvidence(m *pb.Evidence) (Evidence, error) {
	out := Evidence{Complete: m.GetComplete()}
	var err error
	if out.Record, err = wire.FromClosed(m.GetScope()); err != nil {
		return out, err
	}
	for _, u := range m.GetUnsettled() {
		l, err := wire.FromLease(u)
		if err != nil {
			return out, err
		}
		out.Unsettled = append(out.Unsettled, l)
	}
	for _, r := range m.GetEffects() {
		e, err := wire.FromReported(r)
		if err != nil {
			return out, err
		}
		out.Effects = append(out.Effects, e)
	}
	return out, nil
}

// WatchBlocked calls f with every scope of these kinds that waits for a
// reconciler, at first and whenever that changes, until ctx ends, f fails or
// the sidecar goes away. Errors: f's, ErrUnreachable, *RefusedError, ctx's.
func (c *Client) WatchBlocked(ctx context.Context, kinds []scope.Kind, f func([]lease.Record) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req := &pb.WatchBlockedRequest{}
	for _, k := range kinds {
		req.Kinds = append(req.Kinds, string(k))
	}
	stream, err := c.api.WatchBlocked(ctx, req)
	if err != nil {
		return fmt.Errorf("watch blocked scopes: %w", translate(err))
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("watch blocked scopes: %w", translate(err))
		}
		var blocked []lease.Record
		for _, one := range m.GetScopes() {
			r, err := wire.FromClosed(one)
			if err != nil {
				return fmt.Errorf("watch blocked scopes: %w", err)
			}
			blocked = append(blocked, r)
		}
		if err := f(blocked); err != nil {
			return err
		}
	}
}

// Resolve records what became of effects of the scope, under a hold that was
// acquired ToReconcile. All of it is recorded or nothing. Errors:
// *RefusedError, ErrUnreachable, ctx's.
func (h *Hold) Resolve(ctx context.Context, seen ...lease.Resolution) error {
	_, err := h.c.api.Resolve(ctx, &pb.LocalResolveRequest{HoldKey: h.Key(), Resolutions: wire.ToResolutions(seen)})
	if err != nil {
		return fmt.Errorf("resolve %s: %w", h.scope, translate(err))
	}
	return nil
}

// Reopen opens the scope again; seen says what was seen of the whole, since the
// evidence may be incomplete. It is refused while an effect is not resolved.
// The hold is still to be released. Errors: *RefusedError, ErrUnreachable,
// ctx's.
func (h *Hold) Reopen(ctx context.Context, seen string) error {
	_, err := h.c.api.Resolve(ctx, &pb.LocalResolveRequest{HoldKey: h.Key(), Reopen: true, Seen: seen})
	if err != nil {
		return fmt.Errorf("reopen %s: %w", h.scope, translate(err))
	}
	return nil
}
