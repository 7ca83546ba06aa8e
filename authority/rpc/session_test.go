package rpc_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/scope"
)

const prod = "acme/environment:prod"

func TestFC90_ForceReleaseWithTheHolderAliveGrantsNobodyBeforeItHasApplied(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a, other := b.join("node-a", "acme"), b.join("node-b", "acme")
	held := a.hold("acme/environment:free-1")
	a.beat()
	got, err := b.as("sre").ForceRelease(t.Context(), &pb.ForceReleaseRequest{
		CommandId: ulid.Make().String(), Scope: "acme/environment:free-1", Epoch: held.GetEpoch(), Reason: "stuck",
	})
	require.NoError(t, err)
	require.Equal(t, "draining", got.GetAnswer().GetCode())
	require.Greater(t, got.GetAnswer().GetEpoch(), held.GetEpoch())
	require.Positive(t, got.GetAnswer().GetRetryAfter().AsDuration())

	nudge := <-a.nudged
	require.Equal(t, a.session, nudge.GetSession())
	require.Equal(t, "busy", other.acquire("acme/environment:free-1").GetCode())
	a.beat() // still with the old applied set
	require.Equal(t, "busy", other.acquire("acme/environment:free-1").GetCode())

	set := a.apply(held.GetLease().GetId())
	require.Equal(t, nudge.GetVersion().GetVersion(), set.GetVersion().GetVersion())
	require.Equal(t, "draining", set.GetLeases()[0].GetState())
	require.Equal(t, "busy", other.acquire("acme/environment:free-1").GetCode(), "fetched is not applied")
	a.beat()
	granted := other.acquire("acme/environment:free-1")
	require.Equal(t, "acquired", granted.GetCode(), granted.GetDetail())
	require.Greater(t, granted.GetEpoch(), got.GetAnswer().GetEpoch())

	lost := a.fetch(held.GetLease().GetId()).GetEnded()
	require.Len(t, lost, 1)
	require.Equal(t, "force-released", lost[0].GetLease().GetEndReason())
	require.Equal(t, "stuck", lost[0].GetLease().GetEndDetail())
	require.Equal(t, "node-b", lost[0].GetSuccessor().GetNode())
}

func TestFC90_DeadHolderDrainsUntilItsTimeIsOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a, other := b.join("node-a", "acme"), b.join("node-b", "acme")
	b.pass(ttl+lockDelay+2*time.Second, a, other)
	held := a.hold("acme/environment:free-1")
	a.beat()
	_, err := b.as("sre").ForceRelease(t.Context(), &pb.ForceReleaseRequest{
		CommandId: ulid.Make().String(), Scope: "acme/environment:free-1", Epoch: held.GetEpoch(), Reason: "dead",
	})
	require.NoError(t, err)
	b.pass(ttl+2*time.Second, other)
	require.Equal(t, "busy", other.acquire("acme/environment:free-1").GetCode())
	b.pass(time.Second, other)
	require.Equal(t, "acquired", other.acquire("acme/environment:free-1").GetCode())
}

func TestFC91_HeartbeatAnswerNamesTheNewerSetSoThatNothingIsExtended(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.join("node-a", "acme")
	held := a.hold(prod)
	before := a.beat()
	require.True(t, proto.Equal(a.applied, before.GetVersion()))
	_, err := b.as("sre").ForceRelease(t.Context(), &pb.ForceReleaseRequest{
		CommandId: ulid.Make().String(), Scope: prod, Epoch: held.GetEpoch(), Reason: "stuck",
	})
	require.NoError(t, err)
	after := a.beat()
	require.Equal(t, "renewed", after.GetCode())
	require.Greater(t, after.GetVersion().GetVersion(), a.applied.GetVersion())
	for _, l := range a.fetch().GetLeases() {
		require.Equal(t, "draining", l.GetState())
	}
}

func TestFC92_ReplayedAndLateAnswersInstallNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a, other := b.join("node-a", "acme"), b.join("node-b", "acme")
	b.pass(ttl+lockDelay+2*time.Second, a, other)
	first := acquireCommand("acme/environment:free-1")
	granted := a.command(first).GetAnswer()
	require.Equal(t, "acquired", granted.GetCode())
	require.Nil(t, granted.GetRemaining(), "a grant is not ownership")

	b.pass(11*time.Second, a, other) // beyond the claim timeout
	require.Equal(t, "acquired", other.acquire("acme/environment:free-1").GetCode())

	again := a.command(proto.CloneOf(first)).GetAnswer()
	require.True(t, again.GetReplayed())
	require.Equal(t, granted.GetEpoch(), again.GetEpoch())
	require.Nil(t, again.GetRemaining())
	require.Less(t, again.GetVersion().GetVersion(), a.beat().GetVersion().GetVersion(), "its version tells that it is old")
	late := a.claim(granted)
	require.Equal(t, "lost", late.GetCode())
	require.Nil(t, late.GetRemaining())
	require.Empty(t, a.fetch().GetLeases())
}

func TestFC55_CommandIsAnsweredAlikeOnAnotherStream(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.join("node-a", "acme")
	command := acquireCommand(prod)
	granted := a.command(command).GetAnswer()
	a.tunnel.Close()
	a.dial(b, []string{"acme"})
	require.Equal(t, "resumed", a.register().GetCode(), "same process, same nonce")
	again := a.command(proto.CloneOf(command)).GetAnswer()
	require.True(t, again.GetReplayed())
	require.Equal(t, granted.GetEpoch(), again.GetEpoch())
	require.Equal(t, granted.GetReceipt(), again.GetReceipt())

	other := proto.CloneOf(command)
	other.GetAcquire().Holder.Id = "somebody else"
	require.Equal(t, "key-conflict", a.command(other).GetAnswer().GetReason())
}

func TestFC06_SecondInstanceOfANodeWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.join("node-a", "acme")
	first.hold(prod)
	second := b.connect("node-a", "acme")
	got := second.register()
	require.Equal(t, "wait", got.GetCode())
	require.Equal(t, "node-conflict", got.GetReason())
	require.Positive(t, got.GetRetryAfter().AsDuration())
	require.Empty(t, got.GetSession())
	require.Equal(t, "renewed", first.beat().GetCode())
	require.NoError(t, second.stream.Send(&pb.OpenRequest{Frames: []*pb.UpFrame{{Seq: 99, Body: &pb.UpFrame_Heartbeat{
		Heartbeat: &pb.Heartbeat{Session: first.session, Nonce: first.nonce},
	}}}}))
	_, err := second.stream.Recv()
	require.Equal(t, codes.FailedPrecondition, status.Code(err), "no frame without a session")
}

func TestI10_NodeNamesItsOwnTenantsOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.join("node-a", "acme", "beta")
	got := a.acquire("umbrella/environment:prod")
	require.Equal(t, "rejected", got.GetCode())
	require.Equal(t, "foreign-tenant", got.GetReason())
	require.Contains(t, got.GetDetail(), `tenant "umbrella" is not one of node node-a, which may use acme, beta`)
	fault := a.command(acquireCommand("system/environment:prod")).GetFault()
	require.Contains(t, fault.GetMessage(), "is reserved")
	require.False(t, fault.GetOutcomeUnknown())
}

func TestFC108_OnlyTheAuthoritysOwnReceiptsCount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s, err := scope.Parse(prod)
	require.NoError(t, err)
	before := b.engine.History().Generation
	ahead := uint64(before)<<40 + 1000

	liar := b.connect("node-liar", "acme")
	frame := liar.registerFrame()
	frame.Receipts = []*pb.Receipt{{Scope: prod, Epoch: ahead, Seal: b.sealer.Key.Seal(b.sealer.Authority, s.ID(), 1000, "node-b")}}
	got := liar.ask(&pb.UpFrame{Body: &pb.UpFrame_Register{Register: frame}}).GetRegistered()
	require.Equal(t, "rejected", got.GetCode())
	require.Equal(t, "receipt-invalid", got.GetReason())
	require.Equal(t, before, b.engine.History().Generation)
}

func TestFC98_ReceiptAheadOfTheStoreRaisesAboveIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.join("node-a", "acme")
	granted := a.hold(prod)
	require.NotEmpty(t, granted.GetReceipt())
	s, err := scope.Parse(prod)
	require.NoError(t, err)

	before := b.engine.History().Generation
	e := granted.GetEpoch() + 5 // granted after the state that was put back
	witness := b.connect("node-w", "acme")
	frame := witness.registerFrame()
	frame.Receipts = []*pb.Receipt{{Scope: prod, Epoch: e, Seal: b.sealer.Key.Seal(b.sealer.Authority, s.ID(), epochOf(e), "node-w")}}
	got := witness.ask(&pb.UpFrame{Body: &pb.UpFrame_Register{Register: frame}})
	require.Equal(t, "registered", got.GetRegistered().GetCode(), got.GetFault().GetMessage())
	require.Greater(t, b.engine.History().Generation, before)
	require.Greater(t, uint32(b.engine.History().Generation), uint32(e>>40))
	witness.session = got.GetRegistered().GetSession()
	early := witness.acquire("acme/environment:other")
	require.Equal(t, "busy", early.GetCode(), "who held it in the lost history may still act")
	require.Equal(t, "history-cut", early.GetReason())
	b.clock.Advance(maxTTL + lockDelay)
	require.Equal(t, "renewed", witness.beat().GetCode())
	next := witness.acquire("acme/environment:other")
	require.Greater(t, next.GetEpoch(), e)
	require.NoError(t, a.stream.Send(&pb.OpenRequest{Frames: []*pb.UpFrame{{Seq: 77, Body: &pb.UpFrame_Heartbeat{
		Heartbeat: &pb.Heartbeat{Session: a.session, Nonce: a.nonce, Applied: a.applied},
	}}}}))
	_, err = a.stream.Recv()
	require.ErrorContains(t, err, "receipts", "everybody brings what the store may have forgotten")
}

func TestHeartbeatAheadOfTheStoreMustRegisterAnew(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.join("node-a", "acme")
	v := a.beat().GetVersion()
	require.NoError(t, a.stream.Send(&pb.OpenRequest{Frames: []*pb.UpFrame{{Seq: 77, Body: &pb.UpFrame_Heartbeat{Heartbeat: &pb.Heartbeat{
		Session: a.session, Nonce: a.nonce, Applied: &pb.SetVersion{Generation: v.GetGeneration(), Version: v.GetVersion() + 1},
	}}}}}))
	_, err := a.stream.Recv()
	require.Equal(t, codes.Aborted, status.Code(err))
	require.ErrorContains(t, err, "receipts")
}

func TestCloseSettlesAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a, other := b.join("node-a", "acme"), b.join("node-b", "acme")
	a.hold("acme/environment:free-1")
	require.Equal(t, "done", a.command(&pb.Command{Action: &pb.Command_Close{Close: &pb.CloseSession{}}}).GetAnswer().GetCode())
	require.Equal(t, "acquired", other.acquire("acme/environment:free-1").GetCode())
}

func TestManyCommandsOfOneStreamAreAllAnswered(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.join("node-a", "acme")
	var frames []*pb.UpFrame
	for i := range 2000 {
		c := acquireCommand(fmt.Sprintf("acme/environment:e%d", i))
		c.Session, c.Nonce = a.session, a.nonce
		frames = append(frames, &pb.UpFrame{Body: &pb.UpFrame_Command{Command: c}})
	}
	sent := make(chan []uint64, 1)
	go func() {
		var seqs []uint64
		for len(frames) > 0 {
			n := min(len(frames), 100)
			seqs = append(seqs, a.send(frames[:n]...)...)
			frames = frames[n:]
		}
		sent <- seqs
	}()
	got := 0
	for got < 2000 {
		m, err := a.stream.Recv()
		require.NoError(t, err)
		for _, f := range m.GetFrames() {
			require.Equal(t, "acquired", f.GetAnswer().GetCode(), f.GetFault().GetMessage())
			got++
		}
	}
	<-sent
}

func TestStopAnswersWhatIsInFlight(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.join("node-a", "acme")
	seqs := a.send(&pb.UpFrame{Body: &pb.UpFrame_Command{Command: func() *pb.Command {
		c := acquireCommand(prod)
		c.Session, c.Nonce = a.session, a.nonce
		return c
	}()}})
	require.Equal(t, "acquired", a.answer(seqs[0]).GetAnswer().GetCode())
	b.listener.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	b.server.Close(ctx)
	_, err := a.stream.Recv()
	require.Error(t, err)
	require.NotErrorIs(t, err, io.EOF)
	<-a.tunnel.Done()
}
