package uplink_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/shared/tunnel/tunneltest"
	"github.com/forgeyard/concurrency/sidecar/keeper"
)

const target = "acme/merge-target:main"

func release(id string) keeper.Command {
	on, err := scope.Parse(target)
	if err != nil {
		panic(err) // the constant is no scope
	}
	return keeper.Command{ID: id, Session: "s1", Nonce: "nonce-1", Release: &keeper.ReleaseCommand{
		LeaseRef: keeper.LeaseRef{Scope: on, Lease: "lease-1", Epoch: 7}, Why: lease.Released, Quiescence: lease.Quiescence{Unknown: 2},
	}}
}

// outcome is what a call returned.
type outcome[T any] struct {
	got T
	err error
}

// call runs f beside the test.
func call[T any](f func() (T, error)) <-chan outcome[T] {
	done := make(chan outcome[T], 1)
	go func() {
		got, err := f()
		done <- outcome[T]{got, err}
	}()
	return done
}

func (f *fixture) do(ctx context.Context, id string) <-chan outcome[lease.Answer] {
	return call(func() (lease.Answer, error) { return f.Do(ctx, release(id)) })
}

func (f *fixture) beat(ctx context.Context) <-chan outcome[lease.Answer] {
	return call(func() (lease.Answer, error) {
		a, err := f.Heartbeat(ctx, keeper.Beat{Beat: lease.Beat{Session: "s1", Nonce: "nonce-1"}})
		return a.Answer, err
	})
}

func released(seq uint64) *pb.DownFrame {
	return &pb.DownFrame{Seq: seq, Body: &pb.DownFrame_Answer{Answer: &pb.Answer{Code: string(lease.Done), Epoch: 7}}}
}

func fault(seq uint64, malformed bool) *pb.DownFrame {
	return &pb.DownFrame{Seq: seq, Body: &pb.DownFrame_Fault{Fault: &pb.Fault{Message: "store is away", Malformed: malformed}}}
}

// A command whose answer was lost with its stream is asked again, as the same
// command, so that the authority answers from its record (DESIGN 7.1).
func TestACommandIsSentAgainWithTheSameIDOnTheNextStream(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	r := serveReplica(t, pki)
	f := run(t, pki, newRegistrar(), r.addr)
	first := r.register(t, "s1")
	done := f.do(t.Context(), "command-1")
	sent := first.frame().GetCommand()
	require.Equal(t, "command-1", sent.GetCommandId())
	require.EqualValues(t, 7, sent.GetRelease().GetLease().GetEpoch())
	require.EqualValues(t, 2, sent.GetRelease().GetUnknownEffects())
	close(first.over)
	f.passAll() // of the command, maybe more than once, and of the connection
	second := r.register(t, "s1")
	again := second.frame()
	require.Equal(t, "command-1", again.GetCommand().GetCommandId())
	require.EqualValues(t, 7, again.GetCommand().GetRelease().GetLease().GetEpoch())
	second.answer(released(again.GetSeq()))
	got := receive(t, done)
	require.NoError(t, got.err)
	require.Equal(t, lease.Done, got.got.Code)
}

func TestACommandIsSentAgainAfterAFaultButNotAfterAMalformedOne(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	r := serveReplica(t, pki)
	f := run(t, pki, newRegistrar(), r.addr)
	s := r.register(t, "s1")
	done := f.do(t.Context(), "command-1")
	s.answer(fault(s.frame().GetSeq(), false))
	f.pass()
	again := s.frame()
	require.Equal(t, "command-1", again.GetCommand().GetCommandId())
	s.answer(fault(again.GetSeq(), true))
	got := receive(t, done)
	var malformed *keeper.MalformedError
	require.ErrorAs(t, got.err, &malformed)
	require.Equal(t, "store is away", malformed.Detail)
	require.Empty(t, s.up, "nothing more was sent")
}

// A caller that leaves takes its command along.
func TestACommandEndsWithItsContext(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	r := serveReplica(t, pki)
	f := run(t, pki, newRegistrar(), r.addr)
	r.next(t) // never registered
	ctx, cancel := context.WithCancel(t.Context())
	done := f.do(ctx, "command-1")
	cancel()
	got := receive(t, done)
	require.ErrorIs(t, got.err, keeper.ErrUnreachable)
	require.ErrorIs(t, got.err, context.Canceled)
}

func TestAHeartbeatWithoutAConnectionFailsAtOnce(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	r := serveReplica(t, pki)
	f := run(t, pki, newRegistrar(), r.addr)
	r.next(t) // never registered
	_, err := f.Heartbeat(t.Context(), keeper.Beat{Beat: lease.Beat{Session: "s1"}})
	require.ErrorIs(t, err, keeper.ErrUnreachable)
	_, err = f.FetchSet(t.Context(), "s1", "nonce-1", nil)
	require.ErrorIs(t, err, keeper.ErrUnreachable)
	require.Empty(t, f.Address())
}

// What is in flight on a stream ends with it; the next stream carries only
// what is asked then.
func TestAHeartbeatInFlightEndsWithItsStreamAndIsNotSentAgain(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	r := serveReplica(t, pki)
	f := run(t, pki, newRegistrar(), r.addr)
	first := r.register(t, "s1")
	f.connected(first)
	done := f.beat(t.Context())
	require.NotNil(t, first.frame().GetHeartbeat())
	close(first.over)
	require.Error(t, receive(t, done).err)
	f.pass()
	second := r.register(t, "s1")
	f.connected(second) // its first frame is the probe, not the heartbeat
}

// FC-57: an answer that comes after its attempt was given up, twice, or to
// nothing at all reaches nobody; the attempts after it get their own answers.
func TestFC57_LateRepliesAreDropped(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	r := serveReplica(t, pki)
	f := run(t, pki, newRegistrar(), r.addr)
	s := r.register(t, "s1")
	f.connected(s)
	ctx, cancel := context.WithCancel(t.Context())
	late := f.beat(ctx)
	old := s.frame().GetSeq()
	cancel()
	require.ErrorIs(t, receive(t, late).err, context.Canceled)
	second, third := f.beat(t.Context()), (<-chan outcome[lease.Answer])(nil)
	two := s.frame().GetSeq()
	third = f.beat(t.Context())
	three := s.frame().GetSeq()
	s.answer(renewed(old, time.Hour), renewed(three, 3*time.Second), renewed(three, time.Hour),
		renewed(three+100, time.Hour), renewed(0, time.Hour), renewed(two, 2*time.Second), renewed(old, time.Hour))
	got := receive(t, second)
	require.NoError(t, got.err)
	require.Equal(t, 2*time.Second, got.got.Remaining)
	got = receive(t, third)
	require.NoError(t, got.err)
	require.Equal(t, 3*time.Second, got.got.Remaining)
}

// An answer of another kind than was asked for decides nothing: taken as a
// set it would be an empty one, and end every hold.
func TestAnAnswerOfAnotherKindDecidesNothing(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	r := serveReplica(t, pki)
	f := run(t, pki, newRegistrar(), r.addr)
	s := r.register(t, "s1")
	f.connected(s)
	set := call(func() (keeper.Set, error) { return f.FetchSet(t.Context(), "s1", "nonce-1", []string{"lease-1"}) })
	asked := s.frame()
	require.Equal(t, []string{"lease-1"}, asked.GetFetchSet().GetKnown())
	s.answer(renewed(asked.GetSeq(), time.Hour))
	require.ErrorIs(t, receive(t, set).err, keeper.ErrUnreachable)

	set = call(func() (keeper.Set, error) { return f.FetchSet(t.Context(), "s1", "nonce-1", nil) })
	s.answer(&pb.DownFrame{Seq: s.frame().GetSeq(), Body: &pb.DownFrame_Set{Set: &pb.LeaseSet{Code: "a-newer-word"}}})
	require.ErrorIs(t, receive(t, set).err, keeper.ErrUnreachable)

	beat := f.beat(t.Context())
	s.answer(released(s.frame().GetSeq()))
	require.ErrorIs(t, receive(t, beat).err, keeper.ErrUnreachable)

	done := f.do(t.Context(), "command-1")
	s.answer(&pb.DownFrame{Seq: s.frame().GetSeq()}) // as from a newer authority
	f.pass()
	again := s.frame()
	require.Equal(t, "command-1", again.GetCommand().GetCommandId(), "it was not decided")
	s.answer(released(again.GetSeq()))
	require.NoError(t, receive(t, done).err)
}

func TestASetCarriesItsLeasesAndWhatEnded(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	r := serveReplica(t, pki)
	f := run(t, pki, newRegistrar(), r.addr)
	s := r.register(t, "s1")
	f.connected(s)
	done := call(func() (keeper.Set, error) { return f.FetchSet(t.Context(), "s1", "nonce-1", nil) })
	live := &pb.Lease{Id: "lease-1", Scope: target, Epoch: 7, State: string(lease.Live)}
	limited := &pb.Lease{Id: "lease-2", Scope: "acme/merge-target:next", Epoch: 3, MaxRemaining: durationpb.New(0)}
	gone := &pb.Lease{Id: "lease-0", Scope: target, Epoch: 6, EndReason: string(lease.Superseded)}
	s.answer(&pb.DownFrame{Seq: s.frame().GetSeq(), Body: &pb.DownFrame_Set{Set: &pb.LeaseSet{
		Code: string(lease.Done), Remaining: durationpb.New(9 * time.Second), Leases: []*pb.Lease{live, limited},
		Ended: []*pb.Ended{{Lease: gone, Successor: &pb.Summary{Scope: target, Lease: "lease-1", Node: "node-b", Epoch: 7}}},
	}}})
	got := receive(t, done)
	require.NoError(t, got.err)
	require.Equal(t, 9*time.Second, got.got.Remaining)
	require.Len(t, got.got.Leases, 2)
	require.Negative(t, got.got.Leases[0].OwnRemaining, "no limit of its own")
	require.Zero(t, got.got.Leases[1].OwnRemaining, "a limit that is used up is not no limit")
	require.Len(t, got.got.Ended, 1)
	require.Equal(t, "lease-0", got.got.Ended[0].Lease.ID)
	require.Equal(t, "node-b", got.got.Ended[0].Successor.Node)

	done = call(func() (keeper.Set, error) { return f.FetchSet(t.Context(), "s1", "nonce-1", nil) })
	s.answer(&pb.DownFrame{Seq: s.frame().GetSeq(), Body: &pb.DownFrame_Set{Set: &pb.LeaseSet{
		Code: string(lease.Rejected), Reason: string(lease.SessionExpired),
	}}})
	got = receive(t, done)
	require.NoError(t, got.err)
	require.Equal(t, lease.SessionExpired, got.got.Refused)
}
