package uplink_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/tunnel/tunneltest"
	"github.com/forgeyard/concurrency/sidecar/keeper"
)

// deadAddress is one that refuses connections.
func deadAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

func TestTheNextAddressIsTried(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	second, third := serveReplica(t, pki), serveReplica(t, pki)
	f := run(t, pki, newRegistrar(), deadAddress(t), second.addr, third.addr)
	f.pass()
	s := second.register(t, "s1")
	f.connected(s)
	require.Equal(t, second.addr, f.Address())
	require.NoError(t, receive(t, second.tunnels).Close()) // the replica dies
	receive(t, f.registrar.disconnected)
	pause := f.pass()
	require.LessOrEqual(t, pause, 50*time.Millisecond+maxPause/4, "a node that was served comes back soon")
	f.connected(third.register(t, "s1"))
	require.Equal(t, third.addr, f.Address())
}

func TestAttemptsToConnectBackOffUpToTheLimit(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	f := run(t, pki, newRegistrar(), deadAddress(t))
	first := f.pass()
	require.LessOrEqual(t, first, 75*time.Millisecond)
	longest := first
	for range 30 {
		longest = max(longest, f.pass())
	}
	require.Greater(t, longest, maxPause/4)
	require.LessOrEqual(t, longest, maxPause*3/2)
}

// A node that has to wait comes back when the authority said, and says why.
func TestAWaitAnswerIsRespected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ asked, waited time.Duration }{
		"as long as was said":            {700 * time.Millisecond, 700 * time.Millisecond},
		"not longer than the own limit":  {time.Hour, maxPause},
		"not at once when none was said": {0, 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pki := tunneltest.NewPKI(t)
			r := serveReplica(t, pki)
			f := run(t, pki, newRegistrar(), r.addr)
			s := r.next(t)
			s.answer(&pb.DownFrame{Seq: s.frame().GetSeq(), Body: &pb.DownFrame_Registered{Registered: &pb.Registered{
				Code: string(lease.Wait), Reason: string(lease.NodeConflict), Detail: "another process", RetryAfter: durationpb.New(c.asked),
			}}})
			why := receive(t, f.registrar.waiting)
			require.Equal(t, lease.Wait, why.Code)
			require.Equal(t, lease.NodeConflict, why.Reason)
			require.Empty(t, f.registrar.registered)
			_, err := f.Heartbeat(t.Context(), keeper.Beat{Beat: lease.Beat{}})
			require.ErrorIs(t, err, keeper.ErrUnreachable)
			require.Equal(t, c.waited, f.pass())
			f.connected(r.register(t, "s1"))
		})
	}
}

// Nothing goes out before the keeper has made the new session durable.
func TestNothingIsSentBeforeTheRegistrationIsDurable(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	r := serveReplica(t, pki)
	reg := newRegistrar()
	reg.hold = make(chan struct{})
	f := run(t, pki, reg, r.addr)
	s := r.register(t, "s1")
	got := receive(t, reg.registered)
	require.Equal(t, "s1", got.Session)
	require.Equal(t, "authority-1", got.AuthorityID)
	require.Equal(t, f.clock.Boot(), got.SentAt)
	done := f.do(t.Context(), "command-1")
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := f.Heartbeat(short, keeper.Beat{Beat: lease.Beat{Session: "s1"}})
	require.ErrorIs(t, err, keeper.ErrUnreachable)
	require.Empty(t, s.up)
	beat := f.beat(t.Context()) // asked a moment too early: it goes out when it may
	close(reg.hold)
	for range 2 {
		if f := s.frame(); f.GetHeartbeat() != nil {
			s.answer(renewed(f.GetSeq(), time.Second))
		} else {
			require.Equal(t, "command-1", f.GetCommand().GetCommandId())
			s.answer(released(f.GetSeq()))
		}
	}
	require.NoError(t, receive(t, done).err)
	require.NoError(t, receive(t, beat).err)
}

func TestARegistrationNamesWhatItResumes(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	r := serveReplica(t, pki)
	f := run(t, pki, newRegistrar(), r.addr)
	s := r.next(t)
	first := s.frame()
	asked := first.GetRegister()
	require.Equal(t, "s0", asked.GetResumeSession())
	require.Equal(t, "nonce-0", asked.GetResumeNonce())
	require.Equal(t, "nonce-1", asked.GetNonce())
	require.Equal(t, "boot-1", asked.GetBootId())
	s.answer(&pb.DownFrame{Seq: first.GetSeq(), Body: &pb.DownFrame_Registered{Registered: &pb.Registered{
		Code: string(lease.Resumed), Session: "s0",
	}}})
	require.True(t, receive(t, f.registrar.registered).Resumed)
}

// A stream on which a registration got no sense is given up for another.
func TestAFaultOnRegistrationIsTriedAgain(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	r := serveReplica(t, pki)
	f := run(t, pki, newRegistrar(), r.addr)
	for _, body := range []func(seq uint64) *pb.DownFrame{
		func(seq uint64) *pb.DownFrame { return fault(seq, false) },
		func(seq uint64) *pb.DownFrame { return renewed(seq, time.Hour) }, // of another kind
	} {
		s := r.next(t)
		s.answer(body(s.frame().GetSeq()))
		receive(t, s.gone)
		f.pass()
	}
	require.Empty(t, f.registrar.waiting, "the authority did not say that this node has to wait")
	require.Empty(t, f.registrar.registered)
	f.connected(r.register(t, "s1"))
}

func TestReregisterEndsTheStreamAndRegistersOnAnother(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	r := serveReplica(t, pki)
	f := run(t, pki, newRegistrar(), r.addr)
	f.Reregister() // without a stream there is nothing to end
	first := r.register(t, "s1")
	f.connected(first)
	f.Reregister()
	receive(t, first.gone)
	receive(t, f.registrar.disconnected)
	f.pass()
	f.connected(r.register(t, "s2"))
}

func TestTheAuthorityCanCallTheNode(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	r := serveReplica(t, pki)
	f := run(t, pki, newRegistrar(), r.addr)
	cc, err := receive(t, r.tunnels).ClientConn()
	require.NoError(t, err)
	t.Cleanup(func() { cc.Close() })
	client := pb.NewNodeServiceClient(cc)
	_, err = client.Nudge(t.Context(), &pb.NudgeRequest{Version: &pb.SetVersion{Generation: 2, Version: 5}})
	require.NoError(t, err)
	require.Equal(t, lease.SetVersion{Generation: 2, Version: 5}, receive(t, f.registrar.nudged))
	got, err := client.Inspect(t.Context(), &pb.InspectRequest{})
	require.NoError(t, err)
	require.Equal(t, node, got.GetNode())
	require.Equal(t, "connected", got.GetState())
}
