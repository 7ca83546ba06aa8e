package keeper_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/keeper"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// TestAReleaseIsOwedUntilTheAuthorityHasIt: an authority that is away keeps
// the hold known, and no use of it possible.
func TestAReleaseIsOwedUntilTheAuthorityHasIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, l := b.own(b.request())
	final := b.releasing(key)
	r := b.link.next(releases)
	b.keeper.Disconnected()
	b.advance(b.budget.UncertainAfter - time.Millisecond)
	require.Equal(t, ownership.Releasing, b.term(key).State)
	b.advance(b.budget.HardDeadline())
	require.Contains(t, b.gate.View().Holds, key, "forgotten before the authority had its release")
	_, refused := b.gate.Admit(key)
	require.NotNil(t, refused)
	require.Equal(t, l.ID, r.command.Release.Lease)
	b.done(r)
	b.final(final)
	b.eventually(func() bool { return b.link.asked(releases) == 0 }, "one release is one command")
}

// TestFC06_AConflictIsShownAndNothingIsGranted while the authority lets this node
// wait; the caller hears that there is no answer.
func TestFC06_AConflictIsShownAndNothingIsGranted(t *testing.T) {
	t.Parallel()
	b := prepare(t)
	b.start()
	b.keeper.Waiting(lease.Answer{Code: lease.Wait, Reason: lease.NodeConflict, Detail: "another process"})
	done := make(chan error, 1)
	go func() {
		_, err := b.keeper.Acquire(t.Context(), b.request())
		done <- err
	}()
	var err error
	b.eventually(func() bool {
		b.clock.Advance(time.Second)
		select {
		case err = <-done:
			return true
		default:
			return false
		}
	}, "the caller hears nothing")
	var refused *keeper.RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, ownership.AuthorityUnreachable, refused.Term.Reason)
	require.Contains(t, b.keeper.Status().Detail, string(lease.NodeConflict))
	require.Zero(t, b.link.asked(acquires), "asked without a session")
	b.register(false)
	require.Empty(t, b.keeper.Status().Detail)
	b.own(b.request())
}
