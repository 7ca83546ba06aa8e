package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/client"
	"github.com/forgeyard/concurrency/sidecar/ownership"
	"github.com/forgeyard/concurrency/sidecar/sidecartest"
)

func TestHoldIsOwnedUntilItIsReleased(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	h, err := dial(t, s).Acquire(within(t), prod(t), client.As(lease.HolderDeployment, "web-1"))
	require.NoError(t, err)
	require.Equal(t, epoch.Epoch(1), h.Token())
	require.Equal(t, prod(t), h.Scope())
	require.Equal(t, ownership.Owned, h.Current().State)
	require.NoError(t, h.Context().Err())
	unknown, err := h.Release(within(t))
	require.NoError(t, err)
	require.Zero(t, unknown)
	require.Equal(t, context.Canceled, cause(t, h), "a release is no loss")
	r := <-s.Authority.Releases()
	require.Equal(t, lease.Released, r.Why)
	require.Equal(t, h.Lease(), r.Lease)
}

func TestReleaseCountsEffectsOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	h, err := dial(t, s).Acquire(within(t), prod(t))
	require.NoError(t, err)
	id := ulid.Make().String()
	require.NoError(t, s.Journal.Begin(within(t), effect.Effect{ID: id, Lease: h.Lease(), Scope: h.Scope(), Epoch: h.Token(), State: effect.Started}))
	s.Journal.Settle(id, effect.Unknown, "no answer", 0)
	unknown, err := h.Release(within(t))
	require.NoError(t, err)
	require.Equal(t, 1, unknown)
	require.Equal(t, 1, (<-s.Authority.Releases()).Unknown)
}

func TestBusyScopeNamesItsHolder(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	other := s.Authority.Other(prod(t))
	for _, wait := range []time.Duration{0, 200 * time.Millisecond} {
		_, err := dial(t, s).Acquire(within(t), prod(t), client.Wait(wait))
		var busy *client.BusyError
		require.ErrorAs(t, err, &busy)
		require.Equal(t, other.Node, busy.Holder.Node)
		require.Equal(t, other.Epoch, busy.Holder.Epoch)
		require.Equal(t, other.Holder, busy.Holder.Holder)
		require.True(t, busy.Holder.Alive)
		require.Equal(t, wait > 0, busy.Waited)
	}
}

func TestWaitEndsWithTheGrant(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	s.Authority.Other(prod(t))
	waiting := make(chan client.Event, 16)
	go func() {
		<-waiting
		s.Authority.Leave(prod(t))
	}()
	h, err := dial(t, s).Acquire(within(t), prod(t), client.Wait(patience), client.OnEvent(func(e client.Event) {
		if e.State == ownership.Waiting {
			select {
			case waiting <- e:
			default:
			}
		}
	}))
	require.NoError(t, err)
	require.Equal(t, epoch.Epoch(2), h.Token(), "above the one before")
}

func TestGivenUpWaitHoldsNothing(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	s.Authority.Other(prod(t))
	ctx, cancel := context.WithCancel(within(t))
	c := dial(t, s)
	_, err := c.Acquire(ctx, prod(t), client.Wait(patience), client.OnEvent(func(e client.Event) {
		if e.State == ownership.Waiting {
			cancel()
		}
	}))
	require.ErrorIs(t, err, context.Canceled)
	s.Authority.Leave(prod(t))
	_, err = c.Acquire(within(t), prod(t), client.Wait(patience))
	require.NoError(t, err)
}

func TestRefusalsAreTyped(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	s.Authority.Refuse(prod(t), lease.Answer{Code: lease.Rejected, Reason: lease.ScopeBlocked, Detail: "somebody must look"})
	_, err := dial(t, s).Acquire(within(t), prod(t))
	var refused *client.RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, client.RefusedError{Reason: "blocked", Detail: "blocked: somebody must look"}, *refused)
	s.Stop()
	_, err = dial(t, s).Acquire(within(t), prod(t))
	require.ErrorIs(t, err, client.ErrUnreachable)
}

func TestFC27_CauseOfALossNamesTheSuccessor(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	h, err := dial(t, s).Acquire(within(t), prod(t))
	require.NoError(t, err)
	s.Authority.Take(prod(t), lease.Superseded, "authority", "drained for maintenance", true)
	var lost *client.LostError
	require.ErrorAs(t, cause(t, h), &lost)
	require.Equal(t, string(ownership.Superseded), lost.Reason)
	require.Equal(t, "node-b", lost.Successor.Node)
	require.Equal(t, epoch.Epoch(2), lost.Successor.Epoch)
	require.Equal(t, "acme/environment:prod with epoch 1 was lost: superseded (drained for maintenance); deployment web-42 on node node-b has it with epoch 2", lost.Error())
}

func TestFC27_CauseOfAnOutageIsNotASuccessor(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, sidecartest.Options{})
	h, err := dial(t, s).Acquire(within(t), prod(t))
	require.NoError(t, err)
	s.Authority.SetSilent(true)
	var lost *client.LostError
	require.ErrorAs(t, cause(t, h), &lost)
	require.Equal(t, string(ownership.Expired), lost.Reason)
	require.Nil(t, lost.Successor)
}

func TestFC25_DeadlineHoldsWithoutTheSidecar(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, sidecartest.Options{})
	uncertain := make(chan struct{}, 1)
	h, err := dial(t, s).Acquire(within(t), prod(t), client.OnEvent(func(e client.Event) {
		if e.State == ownership.Uncertain {
			select {
			case uncertain <- struct{}{}:
			default:
			}
		}
	}))
	require.NoError(t, err)
	s.Stop()
	<-uncertain
	require.NoError(t, h.Context().Err(), "uncertain is not lost")
	var lost *client.LostError
	require.ErrorAs(t, cause(t, h), &lost)
	require.Equal(t, "the hard deadline passed without a confirmation", lost.Detail)
}

func TestHoldGoesOnWithTheNextSidecar(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	states := make(chan ownership.State, 64)
	h, err := dial(t, s).Acquire(within(t), prod(t), client.OnEvent(func(e client.Event) { states <- e.State }))
	require.NoError(t, err)
	before := h.Token()
	s.Stop()
	for (<-states) != ownership.Uncertain {
	}
	s.Run()
	for (<-states) != ownership.Owned {
	}
	require.NoError(t, h.Context().Err())
	require.Equal(t, before, h.Token(), "the same term")
	_, err = h.Release(within(t))
	require.NoError(t, err)
}
