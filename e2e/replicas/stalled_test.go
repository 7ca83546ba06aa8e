package replicas_test

import (
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/e2e/cluster"
	"github.com/forgeyard/concurrency/e2e/relay"
)

// A replica that is stopped, and goes on after three ttl with whatever it was
// in the middle of, revokes nothing that is live. Its sidecars have left it by
// then: it accepts connections and does not answer.
func TestFC07_AStalledReplicaRevokesNothingThatIsLive(t *testing.T) {
	s := newSite(t)
	session := steady()
	f := s.start(many()/2, 2, session)
	before := f.epochs()
	stopLoad := f.load(time.Second)
	longest := s.gaps(session.TTL)
	stalled := s.replicas[0]
	on := count(f.uplinks(), stalled.Nodes)
	require.NotZero(t, on)
	began := time.Now()
	require.NoError(t, stalled.Pause())
	moved := eventually(t, session.TTL, "nobody waits for the stalled replica", func() bool { return count(f.uplinks(), stalled.Nodes) == 0 })
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

// A replica that runs and answers, but cannot reach Postgres, is left like one
// that is stopped; when Postgres answers it again it serves again.
func TestAReplicaCutOffFromPostgresIsLeft(t *testing.T) {
	s := newDatabase(t)
	r, err := relay.New(net.JoinHostPort("127.0.0.1", strconv.Itoa(s.postgres.Port)))
	require.NoError(t, err)
	t.Cleanup(r.Close)
	_, text, err := net.SplitHostPort(r.Addr)
	require.NoError(t, err)
	port, err := strconv.Atoi(text)
	require.NoError(t, err)
	s.serve(func(replica int) cluster.Serving {
		if replica == 0 {
			return cluster.Serving{PostgresURL: s.through(port)}
		}
		return cluster.Serving{PostgresURL: s.url}
	})
	session := steady()
	f := s.start(50, 2, session)
	before := f.epochs()
	cut := s.replicas[0]
	on := count(f.uplinks(), cut.Nodes)
	require.NotZero(t, on)
	longest := s.gaps(session.TTL)
	r.Silence(relay.ToServer, true)
	moved := eventually(t, session.TTL, "nobody waits for the replica without Postgres", func() bool { return count(f.uplinks(), cut.Nodes) == 0 })
	elapse(t, 2*session.TTL)
	r.Heal()
	elapse(t, session.TTL)
	t.Logf("%d of %d sidecars left the replica within %s; longest renewal gap %s of ttl %s, uncertain after %s; %d of %d holds were uncertain for a moment",
		on, len(f.members), moved.Round(time.Millisecond), longest().Round(time.Millisecond), session.TTL, session.UncertainAfter, f.uncertain.Load(), len(before))
	s.unharmed(f, before)
}
