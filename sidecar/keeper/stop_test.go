package keeper_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/keeper"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// closing runs Close beside the test.
func (b *bench) closing(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() { done <- b.keeper.Close(ctx) }()
	return done
}

func TestAStopWithoutHoldsClosesTheSession(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.advance(b.budget.Interval)
	pending := b.link.next(beats)
	done := b.closing(t.Context())
	c := b.link.next(closes)
	require.Equal(t, session, c.command.Session)
	pending.answer(lease.Answer{Code: lease.Rejected, Reason: lease.SessionEnded}) // it met the close
	_, err := b.keeper.Registration()
	require.ErrorIs(t, err, keeper.ErrStopped, "a close on its way ends whatever has this nonce")
	c.answer(lease.Answer{Code: lease.Done})
	require.NoError(t, <-done)
	b.advance(3 * b.budget.Interval)
	require.Zero(t, b.link.asked(beats))
	require.Empty(t, b.link.reregistered)

	b.restart()
	r, err := b.keeper.Registration()
	require.NoError(t, err)
	require.Empty(t, r.Resume, "there is nothing to resume")
}

// A stop with holds leaves everything as it is, whatever they are up to.
func TestAStopWithHoldsLeavesTheSessionToItsSuccessor(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]func(*bench) ownership.Key{
		"owned": func(b *bench) ownership.Key { key, _ := b.own(b.request()); return key },
		"asked for": func(b *bench) ownership.Key {
			key, _, err := b.keeper.Start(b.t.Context(), b.request())
			require.NoError(b.t, err)
			b.link.next(acquires)
			return key
		},
		"being released": func(b *bench) ownership.Key {
			key, _ := b.own(b.request())
			go b.keeper.Release(b.t.Context(), key) // ends with the test
			b.link.next(releases)
			return key
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			hold(b)
			require.NoError(t, b.keeper.Close(t.Context()))
			require.Zero(t, b.link.asked(closes))
			b.restart()
			r, err := b.keeper.Registration()
			require.NoError(t, err)
			require.Equal(t, session, r.Resume)
		})
	}
}

func TestACloseThatIsNotAnsweredIsGivenUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := b.closing(ctx)
	b.link.next(closes)
	cancel()
	require.ErrorIs(t, <-done, keeper.ErrUnreachable)
}
