package clock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/forgeyard/concurrency/shared/clock"
)

// Setting the wall clock, here by one nanosecond, is noticed at once.
func TestFC24_AStepOfTheWallClockIsNoticedAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	noticed, ended := make(chan struct{}, 16), make(chan error, 1)
	go func() { ended <- clock.WatchSteps(ctx, func() { noticed <- struct{}{} }) }()
	<-noticed // it is armed
	for range 2 {
		_, err := unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_SETOFFSET | unix.ADJ_NANO, Time: unix.Timeval{Usec: 1}})
		if errors.Is(err, unix.EPERM) {
			cancel()
			require.NoError(t, <-ended)
			t.Skip("needs the right to set the clock")
		}
		require.NoError(t, err)
		select {
		case <-noticed:
		case <-time.After(10 * time.Second):
			require.FailNow(t, "the step was not noticed")
		}
	}
	cancel()
	require.NoError(t, <-ended)
}
