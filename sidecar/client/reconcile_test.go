package client_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/sidecar/client"
	"github.com/forgeyard/concurrency/sidecar/sidecartest"
)

// lostCall is an effect that a dead node left.
func lostCall(t *testing.T) lease.Evidence {
	return lease.Evidence{Node: "node-b", Effect: effect.Effect{
		ID: "01JF8Z6M0000000000000EFF01", Lease: "01JF8Z6M00000000000000LOST", Scope: prod(t), Epoch: 7, Provider: "tracker",
		Operation: "PUT /plans/prod", State: effect.Unknown, Reason: "restarted",
	}}
}

func TestI6_AReconcilerResolvesAndReopens(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	c := dial(t, s)
	s.Authority.Block(prod(t), "lease 01JF8Z6M00000000000000LOST ended: expired", lostCall(t))
	left, err := c.Evidence(within(t), prod(t))
	require.NoError(t, err)
	require.Equal(t, lease.Blocked, left.Record.State)
	require.False(t, left.Complete)
	require.Equal(t, "PUT /plans/prod", left.Effects[0].Effect.Operation)

	h, err := c.Acquire(within(t), prod(t), client.ToReconcile())
	require.NoError(t, err)
	var refused *client.RefusedError
	require.ErrorAs(t, h.Reopen(within(t), "all is well"), &refused)
	require.NoError(t, h.Resolve(within(t), lease.Resolution{Effect: left.Effects[0].Effect.ID, Outcome: effect.Failed, Seen: "no plan is stored"}))
	require.NoError(t, h.Reopen(within(t), "the tracker has no plan of epoch 7"))
	_, err = h.Release(within(t))
	require.NoError(t, err)
	require.ErrorAs(t, h.Resolve(within(t)), &refused, "nothing is held any more")
	left, err = c.Evidence(within(t), prod(t))
	require.NoError(t, err)
	require.Equal(t, lease.Open, left.Record.State)
}

// errSeen ends a watch.
var errSeen = errors.New("seen")

func TestWatchBlockedTellsAtOnceAndAtAHint(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	c := dial(t, s)
	told := make(chan []lease.Record, 16)
	ended := make(chan error, 1)
	go func() {
		ended <- c.WatchBlocked(t.Context(), []scope.Kind{scope.Environment}, func(blocked []lease.Record) error {
			told <- blocked
			if len(blocked) > 0 {
				return errSeen
			}
			return nil
		})
	}()
	ctx := within(t)
	require.Empty(t, next(ctx, t, told))
	s.Authority.Block(prod(t), "expired")
	s.Wake()
	require.Equal(t, prod(t), next(ctx, t, told)[0].Scope)
	require.ErrorIs(t, <-ended, errSeen)

	var refused *client.RefusedError
	require.ErrorAs(t, c.WatchBlocked(ctx, nil, nil), &refused, "which kinds")
}

func next(ctx context.Context, t *testing.T, told <-chan []lease.Record) []lease.Record {
	t.Helper()
	select {
	case blocked := <-told:
		return blocked
	case <-ctx.Done():
		require.FailNow(t, "nothing was told")
		return nil
	}
}

func TestFC11_SettleKeepsTheScopeForTheCallersOwnRecord(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	c := dial(t, s)
	h, err := c.Acquire(within(t), prod(t))
	require.NoError(t, err)
	unknown, err := h.Settle(within(t))
	require.NoError(t, err)
	require.Zero(t, unknown)
	require.NoError(t, h.Context().Err(), "it is held still")
	require.Empty(t, s.Authority.Releases())
	_, err = h.Release(within(t))
	require.NoError(t, err)
	require.Len(t, s.Authority.Releases(), 1)
	_, err = h.Settle(within(t))
	var refused *client.RefusedError
	require.ErrorAs(t, err, &refused)
}
