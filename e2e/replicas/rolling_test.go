package replicas_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// many is how many sidecars the tests of herds run.
const many = 200

// Every replica is replaced, first stopped as for an upgrade, then killed, one
// after the other under load: no lease is lost, none becomes even uncertain,
// and no epoch changes.
func TestRollingRestartOfAllReplicasLosesNoLease(t *testing.T) {
	s := newSite(t)
	session := brisk()
	f := s.start(many, 1, session)
	before := f.epochs()
	stopLoad := f.load(time.Second)
	for _, way := range []string{"stopped", "killed"} {
		longest := s.gaps(session.TTL)
		for _, a := range s.replicas {
			on := count(f.uplinks(), a.Nodes)
			end := a.Stop
			if way == "killed" {
				end = a.Kill
			}
			began := time.Now()
			require.NoError(t, end())
			down := time.Since(began)
			moved := eventually(t, session.UncertainAfter+5*time.Second, "all are connected elsewhere", func() bool {
				at := f.uplinks()
				return count(at, "") == 0 && count(at, a.Nodes) == 0
			})
			require.NoError(t, a.Restart(t.Context()))
			t.Logf("%s: %d of %d sidecars moved in %s (the replica took %s to end)", way, on, many, (down + moved).Round(time.Millisecond), down.Round(time.Millisecond))
			elapse(t, 2*session.Interval)
		}
		t.Logf("%s: longest renewal gap %s of ttl %s, uncertain after %s", way, longest().Round(time.Millisecond), session.TTL, session.UncertainAfter)
	}
	stopLoad()
	t.Logf("load: %d acquire and release pairs, slowest %s; %d holds were uncertain for a moment",
		f.pairs.Load(), time.Duration(f.slowest.Load()).Round(time.Millisecond), f.uncertain.Load())
	require.Zero(t, f.lost.Load())
	require.Zero(t, f.uncertain.Load())
	require.Equal(t, many, f.owned())
	require.Equal(t, before, f.epochs())
	require.Zero(t, s.lostLeases())
}
