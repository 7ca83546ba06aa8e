package uplink_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/shared/tunnel/tunneltest"
	"github.com/forgeyard/concurrency/sidecar/keeper"
)

// connected is an uplink with a registered stream.
func connected(t *testing.T) (*fixture, *stream) {
	t.Helper()
	pki := tunneltest.NewPKI(t)
	r := serveReplica(t, pki)
	f := run(t, pki, newRegistrar(), r.addr)
	s := r.register(t, "s1")
	require.Eventually(t, func() bool { return f.Address() != "" }, patience, time.Millisecond)
	return f, s
}

func someEffect(t *testing.T) effect.Effect {
	t.Helper()
	on, err := scope.Parse(target)
	require.NoError(t, err)
	return effect.Effect{ID: "e1", Lease: "lease-1", Scope: on, Epoch: 7, State: effect.Started}
}

func TestI6_EffectsAreTakenOnlyWhenTheAnswerSaysSo(t *testing.T) {
	t.Parallel()
	f, s := connected(t)
	for _, taken := range []bool{true, false} {
		beat := keeper.Beat{Beat: lease.Beat{Session: "s1", Nonce: "nonce-1"}, Effects: []effect.Effect{someEffect(t)}}
		done := call(func() (keeper.BeatAnswer, error) { return f.Heartbeat(t.Context(), beat) })
		sent := s.frame()
		require.Len(t, sent.GetHeartbeat().GetEffects(), 1)
		require.Equal(t, "started", sent.GetHeartbeat().GetEffects()[0].GetState())
		s.answer(&pb.DownFrame{Seq: sent.GetSeq(), Body: &pb.DownFrame_Heartbeat{Heartbeat: &pb.HeartbeatAnswer{Code: string(lease.Renewed), EffectsTaken: taken}}})
		got := receive(t, done)
		require.NoError(t, got.err)
		require.Equal(t, taken, got.got.Taken)
	}
}

func TestASetNamesWhatTheNodeOwes(t *testing.T) {
	t.Parallel()
	f, s := connected(t)
	done := call(func() (keeper.Set, error) { return f.FetchSet(t.Context(), "s1", "nonce-1", nil) })
	s.answer(&pb.DownFrame{Seq: s.frame().GetSeq(), Body: &pb.DownFrame_Set{Set: &pb.LeaseSet{
		Code: string(lease.Done), Owed: []*pb.Lease{{Id: "lease-1", Scope: target, Epoch: 7, Unsettled: true, UnknownEffects: 2}},
	}}})
	got := receive(t, done)
	require.NoError(t, got.err)
	require.Len(t, got.got.Owed, 1)
	require.True(t, got.got.Owed[0].Unsettled)
	require.Equal(t, 2, got.got.Owed[0].Unknown)
}

// A confirmation is asked for once; whatever is no clear yes is none.
func TestI4_OnlyAClearYesConfirms(t *testing.T) {
	t.Parallel()
	f, s := connected(t)
	ask := func() <-chan outcome[lease.Answer] {
		return call(func() (lease.Answer, error) {
			return f.Confirm(t.Context(), keeper.Confirmation{
				Session: "s1", Nonce: "nonce-1", Effect: someEffect(t), Lease: keeper.LeaseRef{Scope: someEffect(t).Scope, Lease: "lease-1", Epoch: 7},
			})
		})
	}
	done := ask()
	sent := s.frame()
	require.Equal(t, "e1", sent.GetConfirm().GetEffect().GetId())
	require.EqualValues(t, 7, sent.GetConfirm().GetLease().GetEpoch())
	s.answer(&pb.DownFrame{Seq: sent.GetSeq(), Body: &pb.DownFrame_Answer{Answer: &pb.Answer{Code: string(lease.Claimed)}}})
	require.Equal(t, lease.Claimed, receive(t, done).got.Code)
	done = ask()
	s.answer(fault(s.frame().GetSeq(), false))
	require.ErrorIs(t, receive(t, done).err, keeper.ErrUnreachable)
	done = ask()
	s.answer(&pb.DownFrame{Seq: s.frame().GetSeq(), Body: &pb.DownFrame_Heartbeat{Heartbeat: &pb.HeartbeatAnswer{Code: string(lease.Renewed)}}})
	require.Error(t, receive(t, done).err)
	done = ask()
	s.frame()
	close(s.over)
	require.Error(t, receive(t, done).err, "it is not sent again")
}

func TestEvidenceAndBlockedScopesAreReadWhole(t *testing.T) {
	t.Parallel()
	f, s := connected(t)
	done := call(func() (keeper.Evidence, error) { return f.Evidence(t.Context(), target) })
	s.answer(&pb.DownFrame{Seq: s.frame().GetSeq(), Body: &pb.DownFrame_Evidence{Evidence: &pb.Evidence{
		Scope: &pb.ClosedState{Scope: target, State: string(lease.Blocked), Epoch: 8}, Holder: &pb.Lease{Id: "l", Scope: target},
		Unsettled: []*pb.Lease{{Id: "lease-1", Scope: target}}, Complete: true,
		Effects: []*pb.ReportedEffect{{Effect: &pb.Effect{Id: "e1", Scope: target, State: "unknown"}, Resolution: &pb.Resolution{Outcome: "failed", Seen: "nothing"}}},
	}}})
	got := receive(t, done)
	require.NoError(t, got.err)
	require.Equal(t, lease.Blocked, got.got.Record.State)
	require.Equal(t, "l", got.got.Holder.ID)
	require.Equal(t, effect.Failed, got.got.Effects[0].Observation.Outcome)
	blocked := call(func() ([]lease.Record, error) { return f.Blocked(t.Context(), []string{"environment"}) })
	sent := s.frame()
	require.Equal(t, []string{"environment"}, sent.GetBlocked().GetKinds())
	s.answer(&pb.DownFrame{Seq: sent.GetSeq(), Body: &pb.DownFrame_Blocked{Blocked: &pb.BlockedScopes{Scopes: []*pb.ClosedState{{Scope: target}}}}})
	require.Len(t, receive(t, blocked).got, 1)
}
