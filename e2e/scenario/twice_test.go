package scenario_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/forgeyard/concurrency/e2e/cluster"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

// FC-99: a data directory that was copied while its sidecar runs holds the
// session's own secrets, and yet it cannot resume the session: the lock file
// that proves the former process dead is another file (DESIGN 3, Session 8).
func TestFC99_ClonedDataDirectoryCannotResume(t *testing.T) {
	t.Parallel()
	secondWaitsForFirst(t, func(first *cluster.Sidecar) *cluster.Sidecar {
		second, err := first.Clone("clone")
		require.NoError(t, err)
		return second
	})
}

// FC-06: a second sidecar with the same identity and a directory of its own is
// a conflict, not a takeover.
func TestFC06_TwoSidecarsWithOneIdentity(t *testing.T) {
	t.Parallel()
	secondWaitsForFirst(t, func(first *cluster.Sidecar) *cluster.Sidecar {
		second, err := first.Clone("twin")
		require.NoError(t, err)
		require.NoError(t, second.Forget())
		return second
	})
}

// secondWaitsForFirst runs two sidecars of one node for longer than a session
// lives. The first keeps its hold and its epoch; the second is told why it
// waits, grants nothing, and serves once the first is dead.
func secondWaitsForFirst(t *testing.T, another func(first *cluster.Sidecar) *cluster.Sidecar) {
	t.Helper()
	b := start(t, "sqlite")
	first := b.sidecar(cluster.SidecarConfig{Node: "node-a", Session: quick()})
	hold := acquire(t, first, "merge-controller")
	second := another(first)
	require.NoError(t, second.Restart(t.Context()))
	t.Cleanup(func() { second.Kill() })

	_, err := second.Local().Acquire(within(t, time.Minute), &pb.HoldRequest{
		Scope: "acme/merge-target:other", Wait: durationpb.New(2 * quick().TTL),
	})
	require.Error(t, err, "a scope that is free, but not for a node that is not registered")
	status, err := second.Local().Status(t.Context())
	require.NoError(t, err)
	require.Empty(t, status.GetSession())
	require.Contains(t, status.GetDetail(), "node-conflict")
	for _, h := range status.GetHolds() { // what it read in a copied directory
		require.Equal(t, "lost", h.GetState(), "nothing of the first's is taken over")
	}

	status, err = first.Local().Status(t.Context())
	require.NoError(t, err)
	require.Len(t, status.GetHolds(), 1)
	require.Equal(t, "owned", status.GetHolds()[0].GetState())
	require.Equal(t, hold.GetEpoch(), status.GetHolds()[0].GetEpoch())

	require.NoError(t, first.Kill())
	next := acquire(t, second, "merge-controller-2")
	require.Greater(t, next.GetEpoch(), hold.GetEpoch())
}
