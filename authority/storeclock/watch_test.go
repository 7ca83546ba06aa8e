package storeclock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/storeclock"
	"github.com/forgeyard/concurrency/shared/boottime"
)

var config = storeclock.Config{LockDelay: 2 * time.Second, Interval: 3 * time.Second, MaxTTL: 30 * time.Second}

var wall = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at is a prompt reading: boot seconds after the start, the wall clock stepped
// by that much.
func at(boot, stepped time.Duration) storeclock.Reading {
	answered := boottime.Instant(boot)
	return storeclock.Reading{Store: wall.Add(boot + stepped), Asked: answered.Add(-time.Millisecond), Answered: answered}
}

func started(t *testing.T) storeclock.Watch {
	t.Helper()
	w, cause := storeclock.New(config).Observe(at(time.Second, 0))
	require.Equal(t, storeclock.Start, cause)
	return w
}

func TestPauseBeginsAtStartAndEnds(t *testing.T) {
	t.Parallel()
	w := started(t)
	require.Zero(t, w.Pause(boottime.Instant(time.Second)).Elapsed)
	require.Equal(t, 2*time.Second, w.Pause(boottime.Instant(3*time.Second)).Elapsed)
	w, cause := w.Observe(at(2*time.Second, 0))
	require.Equal(t, storeclock.NoCause, cause)
	require.Equal(t, 30*time.Second, w.Remaining(boottime.Instant(3*time.Second)))
	require.Zero(t, w.Remaining(boottime.Instant(33*time.Second)))
}

func TestBeforeTheFirstReadingTimeDecidesNothing(t *testing.T) {
	t.Parallel()
	p := storeclock.New(config).Pause(boottime.Instant(time.Hour))
	require.Zero(t, p.Elapsed)
	require.True(t, p.Whole)
}

func TestStepsOfTheStoreClock(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		step time.Duration
		want storeclock.Cause
	}{
		{"an hour ahead", time.Hour, storeclock.Parted},
		{"an hour back", -time.Hour, storeclock.Parted},
		{"above the tolerance ahead", 510 * time.Millisecond, storeclock.Parted},
		{"above the tolerance back", -510 * time.Millisecond, storeclock.Parted},
		{"within the tolerance ahead", 490 * time.Millisecond, storeclock.NoCause},
		{"within the tolerance back", -490 * time.Millisecond, storeclock.NoCause},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w, cause := started(t).Observe(at(3*time.Second, tc.step))
			require.Equal(t, tc.want, cause)
			if tc.want == storeclock.NoCause {
				return
			}
			require.Zero(t, w.Pause(boottime.Instant(3*time.Second)).Elapsed, "the pause counts in the same transaction")
			_, again := w.Observe(at(4*time.Second, tc.step))
			require.Equal(t, storeclock.NoCause, again, "the stepped clock is the new measure")
		})
	}
}

func TestSlowAnswerIsNoStep(t *testing.T) {
	t.Parallel()
	slow := at(3*time.Second, 0)
	slow.Asked = slow.Asked.Add(-900 * time.Millisecond)
	slow.Store = slow.Store.Add(-900 * time.Millisecond)
	w, cause := started(t).Observe(slow)
	require.Equal(t, storeclock.NoCause, cause)
	_, cause = w.Observe(at(4*time.Second, 0))
	require.Equal(t, storeclock.NoCause, cause, "nor is the prompt answer after it")
}

func TestStepBackCannotHideBehindASlowTransaction(t *testing.T) {
	t.Parallel()
	slow := at(3*time.Second, -1600*time.Millisecond)
	slow.Asked = slow.Answered.Add(-2 * time.Second)
	_, cause := started(t).Observe(slow)
	require.Equal(t, storeclock.Parted, cause)
}

func TestStepAheadCannotHideBehindASlowTransaction(t *testing.T) {
	t.Parallel()
	slow := at(3*time.Second, 600*time.Millisecond)
	slow.Asked = slow.Answered.Add(-2 * time.Second)
	_, cause := started(t).Observe(slow)
	require.Equal(t, storeclock.Parted, cause)
}

func TestStallBeginsAPauseUntilACommit(t *testing.T) {
	t.Parallel()
	w := started(t).Committed(boottime.Instant(2 * time.Second))
	w, cause := w.Observe(at(5*time.Second, 0))
	require.Equal(t, storeclock.NoCause, cause)
	w, cause = w.Observe(at(6*time.Second, 0))
	require.Equal(t, storeclock.Stalled, cause)
	w, cause = w.Observe(at(7*time.Second, 0))
	require.Equal(t, storeclock.Stalled, cause, "still nothing was committed")
	_, cause = w.Committed(boottime.Instant(7 * time.Second)).Observe(at(8*time.Second, 0))
	require.Equal(t, storeclock.NoCause, cause)
}

func TestFC98_HistoryCutPausesForTheLongestTTL(t *testing.T) {
	t.Parallel()
	w := started(t).HistoryCut(boottime.Instant(2 * time.Second))
	require.True(t, w.Pause(boottime.Instant(20*time.Second)).Whole)
	w, cause := w.Observe(at(20*time.Second, time.Hour))
	require.Equal(t, storeclock.Parted, cause)
	require.True(t, w.Pause(boottime.Instant(30*time.Second)).Whole, "a step does not shorten a whole pause")
	require.False(t, w.Pause(boottime.Instant(52*time.Second)).Whole)
}

func TestSmallStepsAddUp(t *testing.T) {
	t.Parallel()
	for _, direction := range []time.Duration{1, -1} {
		w, stepped := started(t), time.Duration(0)
		var paused []int
		for second := 2; second < 8; second++ {
			stepped += direction * 300 * time.Millisecond
			var cause storeclock.Cause
			w, cause = w.Observe(at(time.Duration(second)*time.Second, stepped))
			w = w.Committed(boottime.Instant(second) * boottime.Instant(time.Second))
			if cause == storeclock.Parted {
				paused = append(paused, second)
			}
		}
		require.Equal(t, []int{3, 5, 7}, paused, "never more than the tolerance without a pause")
	}
}

func TestSlewingClockBeginsNoPause(t *testing.T) {
	t.Parallel()
	w, stepped := started(t), time.Duration(0)
	for second := 2; second < 60; second++ {
		stepped += 70 * time.Millisecond // 7 %
		var cause storeclock.Cause
		w, cause = w.Observe(at(time.Duration(second)*time.Second, stepped))
		require.Equal(t, storeclock.NoCause, cause)
		w = w.Committed(boottime.Instant(second) * boottime.Instant(time.Second))
	}
}
