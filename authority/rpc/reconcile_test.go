package rpc_test

import (
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

// expire lets the holder of a scope go silent until the sweeper has ended it.
func (b *bench) expire(keep ...*sidecar) {
	for range 5 {
		b.pass((ttl + lockDelay + time.Second) / 2)
		for _, s := range keep {
			require.Equal(b.t, "renewed", s.beat().GetCode())
		}
	}
}

func TestReconcilersAreWokenOnceForAScopeThatBecomesBlocked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	janitor, holder := b.join("node-r", "acme"), b.join("node-a", "acme", "beta")
	foreign := b.join("node-f", "beta")
	for _, s := range []*sidecar{janitor, foreign} {
		asked := s.ask(&pb.UpFrame{Body: &pb.UpFrame_Blocked{Blocked: &pb.BlockedQuery{Kinds: []string{"environment"}}}})
		require.Empty(t, asked.GetBlocked().GetScopes())
	}
	holder.hold(prod)
	b.expire(janitor, foreign)
	require.Equal(t, []string{prod}, (<-janitor.woken).GetScopes())
	b.expire(janitor, foreign)
	require.Empty(t, janitor.woken, "once")
	require.Empty(t, foreign.woken, "of another tenant")
	asked := janitor.ask(&pb.UpFrame{Body: &pb.UpFrame_Blocked{Blocked: &pb.BlockedQuery{Kinds: []string{"environment"}}}})
	require.Len(t, asked.GetBlocked().GetScopes(), 1)
}

func TestI6_PeopleReconcileOverTheAPI(t *testing.T) {
	t.Parallel()
	b := setup(t)
	holder := b.join("node-a", "acme")
	old := holder.hold(prod)
	b.expire()

	blocked, err := b.as("reader").ListBlocked(t.Context(), &pb.ListBlockedRequest{})
	require.NoError(t, err)
	require.Len(t, blocked.GetScopes(), 1)
	require.Equal(t, prod, blocked.GetScopes()[0].GetScope())
	left, err := b.as("reader").GetEvidence(t.Context(), &pb.GetEvidenceRequest{Scope: prod})
	require.NoError(t, err)
	require.Len(t, left.GetEvidence().GetUnsettled(), 1)
	require.False(t, left.GetEvidence().GetComplete(), "its node has not told what it left")

	claim := func(who, reason string) (*pb.ReconcileScopeResponse, error) {
		return b.as(who).ReconcileScope(t.Context(), &pb.ReconcileScopeRequest{CommandId: ulid.Make().String(), Scope: prod, Reason: reason})
	}
	_, err = claim("reader", "curious")
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	_, err = claim("sre", " ")
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.ErrorContains(t, err, "reason")
	resolve := func(reopen bool, seen string) (*pb.ResolveScopeResponse, error) {
		return b.as("sre").ResolveScope(t.Context(), &pb.ResolveScopeRequest{CommandId: ulid.Make().String(), Scope: prod, Reopen: reopen, Seen: seen})
	}
	_, err = resolve(true, "all is well")
	require.ErrorContains(t, err, "claimed for reconciliation first")
	mine, err := claim("sre", "on call")
	require.NoError(t, err)
	require.Greater(t, mine.GetAnswer().GetEpoch(), old.GetEpoch())
	again, err := claim("sre", "still on call")
	require.NoError(t, err, "whoever has it may ask again, and has it for longer")
	require.Equal(t, mine.GetAnswer().GetLease().GetId(), again.GetAnswer().GetLease().GetId())
	require.Equal(t, mine.GetAnswer().GetEpoch(), again.GetAnswer().GetEpoch())
	_, err = resolve(false, "")
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	_, err = resolve(true, "")
	require.ErrorContains(t, err, "seen")
	done, err := resolve(true, "looked at the provider")
	require.NoError(t, err)
	require.Equal(t, "done", done.GetAnswer().GetCode())

	other := b.join("node-b", "acme")
	require.Equal(t, "acquired", other.acquire(prod).GetCode())
}
