package gate_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/clock/clocktest"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/sidecar/gate"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// owned returns an Owned term that is uncertain in 9 s and lost in 14 s.
func owned(t testing.TB, c clock.Clock) ownership.Entry {
	t.Helper()
	sc, err := scope.Parse("acme/environment:prod")
	require.NoError(t, err)
	return ownership.Entry{InFlight: &atomic.Int64{}, Term: ownership.Term{
		Key: ownership.NewKey(), Scope: sc, Lease: "L", Epoch: 7, State: ownership.Owned,
		UncertainAt: c.Boot().Add(9 * time.Second), Deadline: c.Boot().Add(14 * time.Second),
	}}
}

func publish(g *gate.Gate, entries ...ownership.Entry) {
	v := &ownership.View{Holds: map[ownership.Key]ownership.Entry{}}
	for _, e := range entries {
		v.Holds[e.Term.Key] = e
	}
	g.Publish(v)
}

func TestFC21_GateClosesByItsOwnReadingWhenTheKeeperIsDead(t *testing.T) {
	t.Parallel()
	c := clocktest.New(start)
	g := gate.New(c)
	e := owned(t, c)
	publish(g, e)
	p, refused := g.Admit(e.Term.Key)
	require.Nil(t, refused)
	c.Advance(9 * time.Second) // nobody publishes anything any more
	require.Equal(t, gate.CodeUncertain, p.Check().Code)
	_, refused = g.Admit(e.Term.Key)
	require.Equal(t, gate.CodeUncertain, refused.Code)
	require.Equal(t, 423, refused.Code.Status())
	c.Advance(5 * time.Second)
	require.Equal(t, gate.CodeLost, p.Check().Code)
	require.Equal(t, int64(1), g.InFlight(e.Term.Key), "a refused call counts itself out, the admitted one stays")
}

func TestFC22_AnHourOfSleepClosesTheGateOnTheFirstCall(t *testing.T) {
	t.Parallel()
	c := clocktest.New(start)
	g := gate.New(c)
	e := owned(t, c)
	publish(g, e)
	mono := c.Mono()
	c.Sleep(time.Hour)
	require.Equal(t, mono, c.Mono())
	_, refused := g.Admit(e.Term.Key)
	require.Equal(t, gate.CodeLost, refused.Code)
}

func TestFC23_FirstCallAfterAPauseOfTwoTTLIsRefusedWithoutANetwork(t *testing.T) {
	t.Parallel()
	c := clocktest.New(start)
	g := gate.New(c)
	e := owned(t, c)
	publish(g, e)
	c.Advance(30 * time.Second)
	_, refused := g.Admit(e.Term.Key)
	require.Equal(t, gate.CodeLost, refused.Code)
	require.Contains(t, refused.Detail, "nothing was sent")
}

func TestRefusalsByState(t *testing.T) {
	t.Parallel()
	c := clocktest.New(start)
	for state, want := range map[ownership.State]gate.Code{
		ownership.Uncertain: gate.CodeUncertain, ownership.Lost: gate.CodeLost, ownership.Releasing: gate.CodeNoHold,
		ownership.Acquiring: gate.CodeNoHold, ownership.Waiting: gate.CodeNoHold, ownership.Unowned: gate.CodeNoHold,
		ownership.Reconciling: gate.CodeNoHold,
	} {
		g := gate.New(c)
		e := owned(t, c)
		e.Term.State = state
		publish(g, e)
		_, refused := g.Admit(e.Term.Key)
		require.NotNil(t, refused, state)
		require.Equal(t, want, refused.Code, state)
		_, refused = g.AdmitRead(e.Term.Key)
		require.Nil(t, refused, "reads pass in state %s", state)
	}
	_, refused := gate.New(c).Admit(ownership.NewKey())
	require.Equal(t, gate.CodeNoHold, refused.Code)
}

// TestFC103_AReceiptNeverMissesACall races admissions against the release
// protocol: publish Releasing, then read the count.
func TestFC103_AReceiptNeverMissesACall(t *testing.T) {
	t.Parallel()
	c := clock.System()
	for range 2000 {
		g := gate.New(c)
		e := owned(t, c)
		publish(g, e)
		var released, late atomic.Bool
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				p, refused := g.Admit(e.Term.Key)
				if refused != nil {
					return
				}
				if p.Check() == nil && released.Load() {
					late.Store(true)
				}
				p.Done()
			})
		}
		wg.Go(func() {
			releasing := e
			releasing.Term.State = ownership.Releasing
			publish(g, releasing)
			<-g.Idle(e.Term.Key)
			released.Store(true)
		})
		wg.Wait()
		require.False(t, late.Load(), "a call passed its check after the receipt")
	}
}

func TestIdleWaitsForTheLastCall(t *testing.T) {
	t.Parallel()
	c := clocktest.New(start)
	g := gate.New(c)
	e := owned(t, c)
	publish(g, e)
	p, refused := g.Admit(e.Term.Key)
	require.Nil(t, refused)
	idle := g.Idle(e.Term.Key)
	select {
	case <-idle:
		t.Fatal("idle while a call is in flight")
	default:
	}
	p.Done()
	<-idle
	<-g.Idle(e.Term.Key)
}

func TestCutRunsWhatIsRegisteredBeforeAndAfter(t *testing.T) {
	t.Parallel()
	g := gate.New(clocktest.New(start))
	key := ownership.NewKey()
	var ran []string
	g.OnCut(key, func() { ran = append(ran, "before") })
	cancel := g.OnCut(key, func() { ran = append(ran, "cancelled") })
	cancel()
	g.Cut(key)
	g.Cut(key)
	g.OnCut(key, func() { ran = append(ran, "after") })
	require.Equal(t, []string{"before", "after"}, ran)
}

func TestAdmissionAllocatesNothing(t *testing.T) { // not parallel: it counts allocations
	g := gate.New(clock.System())
	e := owned(t, clock.System())
	publish(g, e)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		p, _ := g.Admit(e.Term.Key)
		p.Check()
		p.Done()
	}))
}

func BenchmarkAdmit(b *testing.B) {
	g := gate.New(clock.System())
	e := owned(b, clock.System())
	e.Term.UncertainAt, e.Term.Deadline = e.Term.UncertainAt.Add(time.Hour), e.Term.Deadline.Add(time.Hour)
	publish(g, e)
	b.ReportAllocs()
	for b.Loop() {
		p, _ := g.Admit(e.Term.Key)
		p.Done()
	}
}
