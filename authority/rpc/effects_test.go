package rpc_test

import (
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

// called is an effect under a lease, as its node reports it.
func called(a *pb.Answer, state string) *pb.Effect {
	return &pb.Effect{
		Id: ulid.Make().String(), Lease: a.GetLease().GetId(), Scope: prod, Epoch: a.GetEpoch(), Provider: "tracker", Operation: "PUT /plans/prod", State: state,
	}
}

// tell sends effects with a heartbeat.
func (s *sidecar) tell(effects ...*pb.Effect) *pb.HeartbeatAnswer {
	s.t.Helper()
	beat := &pb.Heartbeat{Session: s.session, Nonce: s.nonce, Applied: s.applied, Effects: effects}
	return s.ask(&pb.UpFrame{Body: &pb.UpFrame_Heartbeat{Heartbeat: beat}}).GetHeartbeat()
}

func (s *sidecar) evidence(scope string) *pb.DownFrame {
	s.t.Helper()
	return s.ask(&pb.UpFrame{Body: &pb.UpFrame_Evidence{Evidence: &pb.EvidenceQuery{Scope: scope}}})
}

func (s *sidecar) confirm(a *pb.Answer, e *pb.Effect) *pb.DownFrame {
	s.t.Helper()
	return s.ask(&pb.UpFrame{Body: &pb.UpFrame_Confirm{Confirm: &pb.Confirm{Session: s.session, Nonce: s.nonce, Lease: ref(a), Effect: e}}})
}

func TestI6_WhatHeartbeatsCarryIsEvidence(t *testing.T) {
	t.Parallel()
	b := setup(t)
	holder, other, foreign := b.join("node-a", "acme"), b.join("node-b", "acme"), b.join("node-f", "beta")
	held := holder.hold(prod)
	require.False(t, holder.tell().GetEffectsTaken(), "there is nothing to take")
	e := called(held, "started")
	require.True(t, holder.tell(e).GetEffectsTaken())
	require.True(t, other.tell(called(held, "started")).GetEffectsTaken(), "taken, and left out: the lease is of another node")
	left := other.evidence(prod).GetEvidence().GetEffects()
	require.Len(t, left, 1)
	require.Equal(t, e.GetId(), left[0].GetEffect().GetId())
	require.Equal(t, "node-a", left[0].GetEffect().GetNode())
	e.State = "succeeded"
	holder.tell(e)
	e.State = "started"
	holder.tell(e) // late
	require.Equal(t, "succeeded", other.evidence(prod).GetEvidence().GetEffects()[0].GetEffect().GetState())

	const freely = "acme/environment:free-1"
	free := called(holder.hold(freely), "started")
	free.Scope = freely
	require.True(t, holder.tell(free).GetEffectsTaken())
	require.Empty(t, other.evidence(freely).GetEvidence().GetEffects(), "nobody will ask what it left")

	malformed := called(held, "perhaps")
	a := holder.tell(malformed)
	require.Equal(t, "renewed", a.GetCode(), "a lease is not lost over its evidence")
	require.False(t, a.GetEffectsTaken())

	refused := foreign.evidence(prod)
	require.True(t, refused.GetFault().GetMalformed(), "I10: asking again will not help")
	require.NotContains(t, refused.GetFault().GetMessage(), "node-a")
}

func TestI6_ANodeThatReturnsIsAskedAndReopensItsScope(t *testing.T) {
	t.Parallel()
	b := setup(t)
	holder, other := b.join("node-a", "acme"), b.join("node-b", "acme")
	held := holder.hold(prod)
	require.Empty(t, holder.fetch().GetOwed())
	b.expire(other)
	require.Equal(t, "rejected", other.acquire(prod).GetCode())

	returned := b.join("node-a", "acme")
	owed := returned.fetch().GetOwed()
	require.Len(t, owed, 1)
	require.Equal(t, held.GetLease().GetId(), owed[0].GetId())
	require.True(t, owed[0].GetUnsettled())
	account := func(s *sidecar, unknown int32, left ...*pb.Effect) *pb.Answer {
		return s.command(&pb.Command{Action: &pb.Command_Account{Account: &pb.Account{Lease: ref(held), UnknownEffects: unknown, Left: left}}}).GetAnswer()
	}
	require.Equal(t, "already-ended", account(other, 0).GetCode(), "it is not its lease")
	require.Equal(t, "done", account(returned, 1, called(held, "unknown")).GetCode())
	require.Equal(t, "blocked", other.acquire(prod).GetReason())
	require.True(t, other.evidence(prod).GetEvidence().GetComplete())
	require.Equal(t, "done", account(returned, 0).GetCode())
	require.Empty(t, returned.fetch().GetOwed())
	require.Equal(t, "acquired", other.acquire(prod).GetCode())
}

func TestI4_OnlyTheLiveHolderIsConfirmed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	holder, other := b.join("node-a", "acme"), b.join("node-b", "acme")
	held := holder.hold(prod)
	e := called(held, "started")
	require.Equal(t, "claimed", holder.confirm(held, e).GetAnswer().GetCode())
	require.Equal(t, e.GetId(), other.evidence(prod).GetEvidence().GetEffects()[0].GetEffect().GetId())
	require.Equal(t, "lost", other.confirm(held, called(held, "started")).GetAnswer().GetCode())
	former := ref(held)
	former.Epoch--
	stale := holder.ask(&pb.UpFrame{Body: &pb.UpFrame_Confirm{Confirm: &pb.Confirm{Session: holder.session, Nonce: holder.nonce, Lease: former, Effect: called(held, "started")}}})
	require.Equal(t, "lost", stale.GetAnswer().GetCode())
	b.expire(other)
	require.Equal(t, "lost", holder.confirm(held, called(held, "started")).GetAnswer().GetCode())
	require.Len(t, other.evidence(prod).GetEvidence().GetEffects(), 1)
}
