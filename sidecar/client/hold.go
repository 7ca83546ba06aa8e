package client

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/shared/wire"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// Event is the state of a hold at one moment.
type Event struct {
	State     ownership.State
	Reason    ownership.Reason
	Detail    string
	Successor *lease.Summary   // who has the scope, when it is not us
	KillAt    boottime.Instant // TERM to what runs under the hold; zero: unknown
	Deadline  boottime.Instant // everything is cut
	Unknown   int              // effects whose outcome nobody knows
}

// Hold is ownership of one scope.
type Hold struct {
	c      *Client
	scope  scope.Scope
	cancel context.CancelFunc
	ctx    context.Context
	lose   context.CancelCauseFunc
	ready  chan struct{} // owned, or refused
	ended  chan struct{} // no further event

	mu       sync.Mutex
	last     *pb.HoldEvent
	event    Event
	owned    bool
	released bool
	err      error
	once     sync.Once
}

func newHold(c *Client, s scope.Scope, cancel context.CancelFunc) *Hold {
	ctx, lose := context.WithCancelCause(context.Background())
	return &Hold{c: c, scope: s, cancel: cancel, ctx: ctx, lose: lose, ready: make(chan struct{}), ended: make(chan struct{})}
}

// Scope is what is held.
func (h *Hold) Scope() scope.Scope { return h.scope }

// Token is the fencing token: present it to whatever the work writes to
// outside the proxy.
func (h *Hold) Token() epoch.Epoch {
	h.mu.Lock()
	defer h.mu.Unlock()
	return epoch.Epoch(h.last.GetEpoch())
}

// Lease is the lease's id.
func (h *Hold) Lease() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last.GetLease()
}

// Key is the secret that names the hold in base URLs.
func (h *Hold) Key() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last.GetHoldKey()
}

// BaseURLs are the fenced URLs, by provider.
func (h *Hold) BaseURLs() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last.GetBaseUrls()
}

// Current is the last event.
func (h *Hold) Current() Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.event
}

// Context ends when the hold does; its cause is a *LostError unless it was
// released.
func (h *Hold) Context() context.Context { return h.ctx }

func (h *Hold) take(m *pb.HoldEvent) Event {
	now := h.c.clock.Boot()
	e := Event{
		State: ownership.State(m.GetState()), Reason: ownership.Reason(m.GetReason()), Detail: m.GetDetail(), Unknown: int(m.GetUnknownEffects()),
	}
	if m.GetDeadlineIn() != nil {
		e.KillAt = earlier(now.Add(m.GetKillIn().AsDuration()), m.GetKillAtBoottime())
		e.Deadline = earlier(now.Add(m.GetDeadlineIn().AsDuration()), m.GetDeadlineAtBoottime())
	}
	if s, err := wire.FromSummary(m.GetHolder()); err == nil {
		e.Successor = s
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last, h.event = m, e
	h.owned = h.owned || e.State == ownership.Owned
	return e
}

// earlier is the earlier of two forms of one instant: the duration is too long
// when the event was read late, and the reading of the clock means something
// else in another time namespace.
func earlier(at boottime.Instant, reading int64) boottime.Instant {
	if reading != 0 && boottime.Instant(reading).Before(at) {
		return boottime.Instant(reading)
	}
	return at
}

// settle lets Acquire return.
func (h *Hold) settle() { h.once.Do(func() { close(h.ready) }) }

// end ends the context, with the loss as its cause unless it was released.
func (h *Hold) end(reason ownership.Reason, detail string, successor *lease.Summary) {
	h.mu.Lock()
	released, e := h.released, h.last.GetEpoch()
	h.mu.Unlock()
	if released {
		h.lose(nil)
		return
	}
	defer h.cancel() // nothing is waited for any more
	h.lose(&LostError{Scope: h.scope.String(), Epoch: e, Reason: string(reason), Detail: detail, Successor: successor})
}

// refused is why the hold was never owned; nil when it was.
func (h *Hold) refused() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.owned:
		return nil
	case h.err != nil:
		return h.err
	case h.event.Reason == ownership.AuthorityUnreachable:
		return fmt.Errorf("%w: %s", ErrUnreachable, h.event.Detail)
	case h.event.Successor != nil && h.event.Reason != ownership.Blocked: // whom it was waited for before, or who reconciles it
		return &BusyError{Scope: h.scope.String(), Holder: *h.event.Successor, Waited: h.event.Reason == ownership.WaitTimeout, Message: h.event.Detail}
	}
	return &RefusedError{Reason: string(h.event.Reason), Detail: h.event.Detail}
}

// Release gives the scope back: no new effect starts, what runs settles. It
// returns how many effects have an unknown outcome. When the sidecar is away it
// is asked again, up to the hard deadline: after that the hold has ended by
// itself. Errors: ErrUnreachable, *RefusedError, ctx's.
func (h *Hold) Release(ctx context.Context) (unknown int, err error) {
	h.mu.Lock()
	h.released = true
	key, deadline := h.last.GetHoldKey(), h.event.Deadline
	h.mu.Unlock()
	h.lose(nil)
	defer h.cancel()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		m, err := h.c.api.Release(ctx, &pb.LocalReleaseRequest{HoldKey: key})
		if err == nil {
			return int(m.GetUnknownEffects()), nil
		}
		if status.Code(err) != codes.Unavailable || !h.c.clock.Boot().Before(deadline) {
			return 0, fmt.Errorf("release %s: %w", h.scope, translate(err))
		}
		timer := h.c.clock.NewTimer(pause)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return 0, fmt.Errorf("release %s: %w", h.scope, ctx.Err())
		}
	}
}
