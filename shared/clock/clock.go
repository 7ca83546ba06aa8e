package clock

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forgeyard/concurrency/shared/boottime"
)

// Clock reads time. Implementations are safe for concurrent use.
type Clock interface {
	// Now is the wall clock: for people, and for the embedded store.
	Now() time.Time
	// Boot is CLOCK_BOOTTIME. It allocates nothing.
	Boot() boottime.Instant
	// Mono is CLOCK_MONOTONIC; the machine slept when Boot ran ahead of it.
	Mono() time.Duration
	// NewTimer fires once after d of monotonic time.
	NewTimer(d time.Duration) Timer
}

// Timer is a time.Timer behind an interface.
type Timer interface {
	C() <-chan time.Time
	Reset(d time.Duration)
	Stop()
}

// System returns the clocks of this machine.
func System() Clock { return system{} }

type system struct{}

func (system) Now() time.Time { return time.Now() }

func (system) Boot() boottime.Instant { return boottime.Instant(read(unix.CLOCK_BOOTTIME)) }

func (system) Mono() time.Duration { return time.Duration(read(unix.CLOCK_MONOTONIC)) }

func (system) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

// read returns nanoseconds. The call fails only for a clock that the kernel
// lacks; then zero makes every deadline look far, so it must not be hidden.
func read(id int32) int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic("clock: read clock " + fmt.Sprint(id) + ": " + err.Error())
	}
	return ts.Nano()
}

type systemTimer struct{ t *time.Timer }

func (t systemTimer) C() <-chan time.Time   { return t.t.C }
func (t systemTimer) Reset(d time.Duration) { t.t.Reset(d) }
func (t systemTimer) Stop()                 { t.t.Stop() }

// BootID returns the kernel's random identity of this boot.
func BootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
