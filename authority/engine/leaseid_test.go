package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/lease"
)

// Lease ids are the callers' choice and are shown to others in a busy answer.
func TestI1_LeaseIDOfAnotherScopeIsNotWrittenOver(t *testing.T) {
	t.Parallel()
	s := newFiles(t).open(t, clock.System())
	o := options(clock.System())
	o.Backoff = time.Millisecond
	e := start(t, s, o)
	a, b := register(t, e, "node-a"), register(t, e, "node-b")
	held := acquire(t, e, a, environment(t, "one"))

	_, err := e.Do(t.Context(), fold.Command{Command: id("node-b"), Action: acquireAction(b, environment(t, "two"), held.Lease.ID)})
	require.ErrorContains(t, err, "is taken")
	view, err := s.Scope(t.Context(), environment(t, "one"))
	require.NoError(t, err)
	require.Len(t, view.Leases, 1)
	require.Equal(t, held.Epoch, view.Leases[0].Epoch)
	require.Equal(t, "node-a", view.Leases[0].Node)
	require.Equal(t, lease.Live, view.Leases[0].State)
	other, err := s.Scope(t.Context(), environment(t, "two"))
	require.NoError(t, err)
	require.Empty(t, other.Leases)
}
