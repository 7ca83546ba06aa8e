package uplink_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/tunnel/tunneltest"
	"github.com/forgeyard/concurrency/sidecar/keeper"
	"github.com/forgeyard/concurrency/sidecar/uplink"
)

const patience = 900 * time.Millisecond

func impatient(addresses ...string) func(*uplink.Config) {
	return func(c *uplink.Config) { c.Addresses, c.Patience = addresses, patience }
}

// A replica that was stopped takes heartbeats and answers nothing.
func TestFC07_AReplicaThatLeavesAHeartbeatWithoutAnswerIsLeft(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	first, second := serveReplica(t, pki), serveReplica(t, pki)
	f := runWith(t, pki, newRegistrar(), impatient(first.addr, second.addr))
	s := first.register(t, "s1")
	f.connected(s)
	sent := f.beat(t.Context())
	require.NotNil(t, s.frame().GetHeartbeat())
	require.Equal(t, patience, f.pass(), "the patience with one heartbeat")
	require.Error(t, receive(t, sent).err)
	receive(t, s.gone)
	f.pass()
	f.connected(second.register(t, "s1"))
	require.Equal(t, second.addr, f.Address())
}

// A replica without its store answers every heartbeat with a fault. With
// another one to try it is left; alone it is all there is.
func TestAReplicaThatRenewsNothingIsLeftForAnother(t *testing.T) {
	t.Parallel()
	for name, alone := range map[string]bool{"of two": false, "alone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pki := tunneltest.NewPKI(t)
			first, second := serveReplica(t, pki), serveReplica(t, pki)
			addresses := []string{first.addr, second.addr}
			if alone {
				addresses = addresses[:1]
			}
			f := runWith(t, pki, newRegistrar(), impatient(addresses...))
			s := first.register(t, "s1")
			f.connected(s)
			for range 2 {
				sent := f.beat(t.Context())
				s.answer(fault(s.frame().GetSeq(), false))
				require.Error(t, receive(t, sent).err)
				require.Equal(t, patience, receive(t, f.clock.asked))
				f.clock.Advance(patience) // between heartbeats
			}
			sent := f.beat(t.Context())
			s.answer(fault(s.frame().GetSeq(), false))
			require.Error(t, receive(t, sent).err)
			if alone {
				f.connected(s.same(f))
				return
			}
			receive(t, s.gone)
			receive(t, f.clock.asked) // of the last heartbeat
			f.pass()
			f.connected(second.register(t, "s1"))
		})
	}
}

// same is the stream again, as if it had registered just now.
func (s *stream) same(f *fixture) *stream {
	f.registrar.registered <- keeper.Registered{}
	return s
}

// FC-41: those that a replica sends away together do not come back together.
func TestFC41_AnOverloadedReplicaIsGivenTheTimeThatItAsksFor(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	r := serveReplica(t, pki)
	f := run(t, pki, newRegistrar(), r.addr)
	const asked = 5 * time.Second
	pauses := map[time.Duration]bool{}
	for range 4 {
		s := r.next(t)
		s.answer(&pb.DownFrame{Seq: s.frame().GetSeq(), Body: &pb.DownFrame_Fault{Fault: &pb.Fault{
			Message: "engine: overloaded", RetryAfter: durationpb.New(asked),
		}}})
		pause := f.pass()
		require.GreaterOrEqual(t, pause, asked)
		require.Less(t, pause, 2*asked)
		pauses[pause] = true
	}
	require.Greater(t, len(pauses), 1, "not the same pause for everybody")
	f.connected(r.register(t, "s1"))
}
