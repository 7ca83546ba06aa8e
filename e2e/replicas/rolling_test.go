package replicas_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/sidecar"
)

// many is how many sidecars the tests of herds run: fewer where other tests
// share the machine.
func many() int {
	if os.Getenv("LONG") != "" {
		return 200
	}
	return 60
}

// Every replica is replaced, first stopped as for an upgrade, then killed, one
// after the other under load: no lease is lost, none becomes even uncertain,
// and no epoch changes.
func TestRollingRestartOfAllReplicasLosesNoLease(t *testing.T) {
	s := newSite(t)
	session := sidecar.DefaultConfig().Session
	f := s.start(many(), 1, session)
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
			t.Logf("%s: %d of %d sidecars moved in %s (the replica took %s to end)", way, on, many(), (down + moved).Round(time.Millisecond), down.Round(time.Millisecond))
			elapse(t, session.Interval)
		}
		t.Logf("%s: longest renewal gap %s of ttl %s, uncertain after %s", way, longest().Round(time.Millisecond), session.TTL, session.UncertainAfter)
	}
	stopLoad()
	t.Logf("load: %d acquire and release pairs, slowest %s; %d holds were uncertain for a moment",
		f.pairs.Load(), time.Duration(f.slowest.Load()).Round(time.Millisecond), f.uncertain.Load())
	require.Zero(t, f.uncertain.Load())
	s.unharmed(f, before)
}

// unharmed fails the test when a lease was lost.
func (s *site) unharmed(f *fleet, before map[string]uint64) {
	s.t.Helper()
	require.Zero(s.t, f.lost.Load())
	eventually(s.t, 10*time.Second, "every hold is owned", func() bool { return f.owned() == len(before) })
	require.Equal(s.t, before, f.epochs())
	require.Zero(s.t, s.lostLeases())
}
