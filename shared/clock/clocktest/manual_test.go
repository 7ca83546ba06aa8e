package clocktest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/clock/clocktest"
)

func manual() *clocktest.Manual { return clocktest.New(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) }

func fired(t clock.Timer) bool {
	select {
	case <-t.C():
		return true
	default:
		return false
	}
}

func TestTimersFireWhenTheyComeDueAndNotBefore(t *testing.T) {
	t.Parallel()
	m := manual()
	early, late := m.NewTimer(time.Second), m.NewTimer(time.Minute)
	m.Advance(time.Second - 1)
	require.False(t, fired(early))
	m.Advance(1)
	require.True(t, fired(early))
	require.False(t, fired(early), "a timer fires once")
	require.False(t, fired(late))
	m.Advance(time.Hour)
	require.True(t, fired(late))
	require.True(t, fired(m.NewTimer(0)), "no duration is due at once")
}

func TestAStepOfTheWallMovesNothingElse(t *testing.T) {
	t.Parallel()
	m := manual()
	wall, boot, mono, timer := m.Now(), m.Boot(), m.Mono(), m.NewTimer(time.Minute)
	m.StepWall(-time.Hour)
	require.Equal(t, -time.Hour, m.Now().Sub(wall))
	require.Equal(t, boot, m.Boot())
	require.Equal(t, mono, m.Mono())
	m.StepWall(3 * time.Hour)
	require.False(t, fired(timer))
}

// Go's timers count monotonic time: after a sleep they still wait for the rest.
func TestAfterASleepATimerStillWaitsForTheRest(t *testing.T) {
	t.Parallel()
	m := manual()
	timer := m.NewTimer(10 * time.Second)
	m.Advance(4 * time.Second)
	m.Sleep(time.Hour)
	m.Advance(6*time.Second - 1)
	require.False(t, fired(timer))
	m.Advance(1)
	require.True(t, fired(timer))
}

func TestStopAndResetDropAStaleTick(t *testing.T) {
	t.Parallel()
	m := manual()
	timer := m.NewTimer(time.Second)
	m.Advance(time.Second)
	timer.Stop()
	require.False(t, fired(timer))
	timer.Reset(time.Second)
	m.Advance(time.Second)
	timer.Reset(time.Second)
	require.False(t, fired(timer))
	m.Advance(time.Second)
	require.True(t, fired(timer))
}

func TestWaitForTimersReturnsOnceTheyAreArmed(t *testing.T) {
	t.Parallel()
	m := manual()
	armed := make(chan struct{})
	go func() {
		m.WaitForTimers(2)
		close(armed)
	}()
	m.NewTimer(time.Second)
	select {
	case <-armed:
		t.Fatal("one timer is not two")
	default:
	}
	m.NewTimer(time.Second)
	<-armed
}
