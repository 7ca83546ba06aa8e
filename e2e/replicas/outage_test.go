package replicas_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/forgeyard/concurrency/e2e/cluster"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/sidecar"
	"github.com/forgeyard/concurrency/sidecar/client"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// crash takes Postgres away at once and brings it back after d.
func (s *site) crash(d time.Duration) {
	s.t.Helper()
	s.postgres.Kill()
	elapse(s.t, d)
	require.NoError(s.t, s.postgres.Start(s.t.Context()))
}

// Postgres is away for five seconds: nothing is lost.
func TestPostgresStoppedForFiveSecondsLosesNoLease(t *testing.T) {
	s := newSite(t)
	f := s.start(50, 2, sidecar.DefaultConfig().Session)
	before := f.epochs()
	stopLoad := f.load(time.Second)
	s.crash(5 * time.Second)
	pairs := f.pairs.Load()
	took := eventually(t, time.Minute, "commands are served again", func() bool { return f.pairs.Load() > pairs })
	elapse(t, 10*time.Second)
	stopLoad()
	t.Logf("served again %s after Postgres; %d of %d holds were uncertain for a moment", took.Round(time.Millisecond), f.uncertain.Load(), len(before))
	s.unharmed(f, before)
}

// Postgres is away for two ttl: every hold is uncertain in time and lost at its
// hard deadline. Afterwards nobody is granted what a node held that does not
// come back before that node could have come back (time pause); the others
// settle and release; everything is grantable again, and nobody did anything.
func TestPostgresStoppedForTwoTTLEndsInTimeAndRecoversUnattended(t *testing.T) {
	s := newSite(t)
	session := brisk()
	f := s.start(50, 2, session)
	before := f.epochs()
	gone, kept := s.other("node-gone", session)

	s.postgres.Kill()
	began := time.Now()
	uncertain := f.entered(began, ownership.Uncertain, session.TTL)
	require.LessOrEqual(t, slices.Max(uncertain), session.UncertainAfter+time.Second, "uncertain in time")
	lost := f.entered(began, ownership.Lost, session.TTL)
	require.LessOrEqual(t, slices.Max(lost), session.TTL-session.Margin+time.Second, "lost at the hard deadline")
	t.Logf("without Postgres: uncertain after %s to %s, lost after %s to %s (ttl %s)",
		slices.Min(uncertain), slices.Max(uncertain), slices.Min(lost), slices.Max(lost), session.TTL)
	require.NoError(t, gone.Kill())
	elapse(t, 2*session.TTL-time.Since(began))
	require.NoError(t, s.postgres.Start(t.Context()))
	back := time.Now()

	next := f.members[1].take(kept)
	eventually(t, time.Minute, "every other scope is owned again", func() bool { return f.owned() == len(before) })
	first, last := f.regrants()
	taken := <-next
	t.Logf("after Postgres came back: others granted again after %s to %s; what the vanished node held after %s (its ttl and lock delay are %s)",
		since(back, first), since(back, last), since(back, taken), session.TTL+lockDelay)
	require.GreaterOrEqual(t, taken.Sub(back), session.TTL+lockDelay, "the node could have come back until then")
	f.raised(before)
}

// other is a sidecar as a process, that holds a scope.
func (s *site) other(node string, session sidecar.SessionConfig) (*cluster.Sidecar, scope.Scope) {
	s.t.Helper()
	other, err := cluster.StartSidecar(s.t.Context(), s.opts, s.replicas[0], cluster.SidecarConfig{
		Node: node, Session: cluster.Session(session), Addresses: s.addresses(),
	})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { other.Kill() })
	held := environment(s.t, node)
	got, err := other.Local().Acquire(s.t.Context(), &pb.HoldRequest{Scope: held.String(), Pid: int32(os.Getpid()), Wait: durationpb.New(time.Minute)})
	require.NoError(s.t, err)
	require.Equal(s.t, string(ownership.Owned), got.GetState())
	return other, held
}

func since(a, b time.Time) time.Duration { return b.Sub(a).Round(10 * time.Millisecond) }

// entered waits until each hold has entered a state since began, and says how
// long that took.
func (f *fleet) entered(began time.Time, want ownership.State, within time.Duration) []time.Duration {
	f.t.Helper()
	var took []time.Duration
	eventually(f.t, within+5*time.Second, "every hold is "+string(want), func() bool {
		took = took[:0]
		all := true
		f.each(func(_ *member, k *keep) {
			at, ok := k.entered(want)
			all = all && ok && at.After(began)
			took = append(took, since(began, at))
		})
		return all
	})
	return took
}

// take waits for a scope that somebody else had.
func (m *member) take(held scope.Scope) <-chan time.Time {
	granted := make(chan time.Time, 1)
	go func() {
		for ctx := m.fleet.t.Context(); ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
			if h, err := m.client.Acquire(ctx, held, client.Wait(time.Minute)); err == nil {
				granted <- time.Now()
				_, _ = h.Release(context.WithoutCancel(ctx))
				return
			}
		}
	}()
	return granted
}

// regrants is when the first and the last hold began.
func (f *fleet) regrants() (first, last time.Time) {
	f.each(func(_ *member, k *keep) {
		granted := k.lastGrant()
		if first.IsZero() || granted.Before(first) {
			first = granted
		}
		if granted.After(last) {
			last = granted
		}
	})
	return first, last
}

// raised fails the test unless every hold is a new one.
func (f *fleet) raised(before map[string]uint64) {
	f.t.Helper()
	f.each(func(_ *member, k *keep) { require.Greater(f.t, k.epoch(), before[k.scope.String()]) })
}

// FC-41: all sidecars, with ten leases each, lose everything in one
// outage of all replicas and of Postgres, and come back together. Nobody does
// anything.
func TestFC41_ThousandsOfBrokenLeasesRecoverUnattendedAfterAnOutage(t *testing.T) {
	const each = 10
	s := newSite(t)
	session := steady()
	f := s.start(many(), each, session)
	before := f.epochs()
	for _, a := range s.replicas {
		require.NoError(t, a.Kill())
	}
	s.postgres.Kill()
	eventually(t, 2*session.TTL, "every hold is lost", func() bool { return f.lost.Load() == int64(len(before)) })
	elapse(t, session.TTL)
	require.NoError(t, s.postgres.Start(t.Context()))
	back := time.Now()
	for _, a := range s.replicas {
		require.NoError(t, a.Restart(t.Context()))
	}
	serving := time.Now()
	connected := eventually(t, time.Minute, "every sidecar is connected", func() bool { return count(f.uplinks(), "") == 0 })
	eventually(t, 2*time.Minute, "every scope is owned again", func() bool { return f.owned() == len(before) })
	first, last := f.regrants()
	t.Logf("%d leases of %d sidecars broken; replicas served after %s, all sidecars were connected %s later; granted again after %s to %s",
		len(before), many(), since(back, serving), connected.Round(10*time.Millisecond), since(back, first), since(back, last))
	f.raised(before)
}
