package client

import (
	"context"
	"fmt"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

// Settle is how a cancelled operation begins to end: from now on no effect
// starts under the hold, and it returns when those under way have an outcome.
// The scope stays owned and the hold's context goes on: bring your own record
// to its end, then Release. It returns how many effects have an unknown outcome;
// while there are any the scope will wait for somebody to look. Errors:
// *RefusedError when it is not owned any more, ErrUnreachable, ctx's.
func (h *Hold) Settle(ctx context.Context) (unknown int, err error) {
	m, err := h.c.api.Settle(ctx, &pb.LocalSettleRequest{HoldKey: h.Key()})
	if err != nil {
		if ctx.Err() != nil {
			return 0, fmt.Errorf("settle %s: %w", h.scope, ctx.Err())
		}
		return 0, fmt.Errorf("settle %s: %w", h.scope, translate(err))
	}
	return int(m.GetUnknownEffects()), nil
}
