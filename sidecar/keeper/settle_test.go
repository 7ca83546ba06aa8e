package keeper_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/gate"
	"github.com/forgeyard/concurrency/sidecar/keeper"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// TestFC11_ACancelSettlesBeforeItReleases: no effect starts any more, what runs
// ends, the lease is kept meanwhile and given back with its receipt.
func TestFC11_ACancelSettlesBeforeItReleases(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, l := b.own(b.request())
	permit, refused := b.gate.Admit(key)
	require.Nil(t, refused)
	e := b.began(l, "01JF8Z6M0000000000000EFF01")
	settled := make(chan error, 1)
	go func() {
		_, err := b.keeper.Settle(t.Context(), key)
		settled <- err
	}()
	b.untilTerm(key, func(t ownership.Term) bool { return t.Settling })
	b.refused(key, gate.CodeNoHold)
	require.Nil(t, permit.CheckRunning(), "what runs may go on")
	permit.Done()
	b.turn()
	require.Empty(t, settled, "its outcome is not known yet")
	b.journal.Settle(e.ID, effect.Succeeded, "", 201)
	require.NoError(t, <-settled)
	require.Zero(t, b.link.asked(releases))

	b.advance(b.budget.Interval)
	b.beats()
	require.Equal(t, ownership.Owned, b.term(key).State, "the caller still brings his record to its end")
	b.refused(key, gate.CodeNoHold)
	b.releasing(key)
	r := b.link.next(releases).command.Release
	require.Equal(t, lease.Released, r.Why)
	require.Zero(t, r.Unknown)
	require.False(t, r.Partial)
}

// TestFC11_ARestartDoesNotReopenWhatWasSettling.
func TestFC11_ARestartDoesNotReopenWhatWasSettling(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, l := b.own(b.request())
	_, err := b.keeper.Settle(t.Context(), key)
	require.NoError(t, err)
	b.stored()
	b.restart()
	b.register(true)
	l.State = lease.Live
	b.answerSet(l)
	b.until(key, ownership.Owned)
	b.refused(key, gate.CodeNoHold)
}

// TestFC11_AReleaseWaitsForWhatRuns, and says what it could not learn.
func TestFC11_AReleaseWaitsForWhatRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, l := b.own(b.request())
	permit, refused := b.gate.Admit(key)
	require.Nil(t, refused)
	e := b.began(l, "01JF8Z6M0000000000000EFF01")
	b.releasing(key)
	b.until(key, ownership.Releasing)
	b.advance(b.budget.Interval)
	b.beats()
	require.Zero(t, b.link.asked(releases), "it is in flight: the lease is kept")
	b.journal.Settle(e.ID, effect.Unknown, "no answer: timeout", 0)
	permit.Done()
	r := b.link.next(releases).command.Release
	require.Equal(t, 1, r.Unknown)
	require.Equal(t, e.ID, only(t, r.Left).ID)
}

func TestSettlingNothingIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.keeper.Settle(t.Context(), ownership.NewKey())
	require.ErrorIs(t, err, keeper.ErrNoHold)
}
