package replicas_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A replica that is stopped, and goes on after three ttl with whatever it was
// in the middle of, revokes nothing that is live. Its sidecars have left it by
// then: it accepts connections and does not answer.
func TestFC07_AStalledReplicaRevokesNothingThatIsLive(t *testing.T) {
	s := newSite(t)
	session := brisk()
	f := s.start(many/2, 2, session)
	before := f.epochs()
	stopLoad := f.load(time.Second)
	longest := s.gaps(session.TTL)
	stalled := s.replicas[0]
	on := count(f.uplinks(), stalled.Nodes)
	require.NotZero(t, on)
	began := time.Now()
	require.NoError(t, stalled.Pause())
	moved := eventually(t, session.TTL, "nobody waits for the stalled replica", func() bool {
		at := f.uplinks()
		return count(at, stalled.Nodes) == 0 && count(at, "") == 0
	})
	elapse(t, 3*session.TTL-time.Since(began))
	require.NoError(t, stalled.Resume())
	resumed := time.Now()
	elapse(t, session.TTL+lockDelay)
	stopLoad()
	t.Logf("stopped for %s: %d of %d sidecars moved within %s; longest renewal gap %s of ttl %s, uncertain after %s; %d of %d holds were uncertain for a moment",
		resumed.Sub(began).Round(time.Millisecond), on, len(f.members), moved.Round(time.Millisecond),
		longest().Round(time.Millisecond), session.TTL, session.UncertainAfter, f.uncertain.Load(), len(before))
	t.Logf("load: %d pairs, slowest %s", f.pairs.Load(), time.Duration(f.slowest.Load()).Round(time.Millisecond))
	s.unharmed(f, before)
	require.NoError(t, stalled.Stop(), "it works again, and stops as it should")
}
