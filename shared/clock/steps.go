package clock

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// farAhead is a wall time in seconds at which no timer of ours has to fire.
const farAhead = 1 << 33

// WatchSteps calls f, until ctx ends, at once after somebody set the wall clock
// or the machine woke up: the moment to compare the clocks. A clock that is
// slewed is not set. Errors: the kernel has no timerfd, or no room for one.
func WatchSteps(ctx context.Context, f func()) error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("watch wall clock: %w", err)
	}
	timer := os.NewFile(uintptr(fd), "timerfd")
	defer timer.Close()
	if err := armStep(timer); err != nil {
		return fmt.Errorf("watch wall clock: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { timer.Close() })
	defer stop()
	f() // what was set before it was armed
	for {
		_, err := timer.Read(make([]byte, 8))
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !errors.Is(err, unix.ECANCELED):
			return fmt.Errorf("watch wall clock: %w", err)
		}
		// Armed first: a step after this one is not missed.
		if err := armStep(timer); err != nil && ctx.Err() == nil {
			return fmt.Errorf("watch wall clock: %w", err)
		}
		f()
	}
}

// armStep makes the next read fail with ECANCELED when the clock is set
// (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET).
func armStep(timer *os.File) error {
	raw, err := timer.SyscallConn()
	if err != nil {
		return err
	}
	at := unix.ItimerSpec{Value: unix.Timespec{Sec: farAhead}}
	ctl := raw.Control(func(fd uintptr) {
		err = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, &at, nil)
	})
	return errors.Join(ctl, err)
}
