package keeper

import (
	"context"
	"errors"

	"github.com/forgeyard/concurrency/shared/boottime"
)

// errSlow ends an attempt that got no answer in time: neither from the disk
// that it waits for first, nor from the authority.
var errSlow = errors.New("no answer in time")

// attempt is one call beside the loop. It has a deadline of its own, kept by
// the loop whatever the call does; the answer to one that was given up carries
// an older number and is ignored (FC-57).
type attempt struct {
	number  int
	running bool
	until   boottime.Instant
	cancel  context.CancelFunc
}

// start begins the next one under ctx.
func (a *attempt) start(ctx context.Context, until boottime.Instant) (context.Context, int) {
	ctx, cancel := context.WithCancel(ctx)
	*a = attempt{number: a.number + 1, running: true, until: until, cancel: cancel}
	return ctx, a.number
}

// is reports whether number is the one under way.
func (a *attempt) is(number int) bool { return a.running && a.number == number }

// end ends the one under way; it may have ended before.
func (a *attempt) end() {
	if a.running {
		a.running = false
		a.cancel()
	}
}

// overdue reports whether the one under way has used up its time.
func (a *attempt) overdue(now boottime.Instant) bool { return a.running && !now.Before(a.until) }
