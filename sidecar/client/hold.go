package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

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
	stream grpc.ServerStreamingClient[pb.HoldEvent]
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

func newHold(c *Client, s scope.Scope, stream grpc.ServerStreamingClient[pb.HoldEvent], cancel context.CancelFunc) *Hold {
	ctx, lose := context.WithCancelCause(context.Background())
	return &Hold{c: c, scope: s, stream: stream, cancel: cancel, ctx: ctx, lose: lose, ready: make(chan struct{}), ended: make(chan struct{})}
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

// follow reads events until the stream ends.
func (h *Hold) follow(onEvent func(Event)) {
	defer close(h.ended)
	defer h.settle()
	guard := newGuard(h)
	defer guard.stop()
	for {
		m, err := h.stream.Recv()
		if err != nil {
			h.fail(err)
			return
		}
		e := h.take(m)
		guard.arm(e.Deadline)
		if onEvent != nil {
			onEvent(e)
		}
		switch e.State {
		case ownership.Owned:
			h.settle()
		case ownership.Lost:
			h.end(e.Reason, e.Detail, e.Successor)
		case ownership.Unowned, ownership.Acquiring, ownership.Waiting, ownership.Uncertain, ownership.Reconciling, ownership.Releasing:
		}
	}
}

func (h *Hold) take(m *pb.HoldEvent) Event {
	now := h.c.clock.Boot()
	e := Event{
		State: ownership.State(m.GetState()), Reason: ownership.Reason(m.GetReason()), Detail: m.GetDetail(), Unknown: int(m.GetUnknownEffects()),
	}
	if m.GetDeadlineIn() != nil {
		e.KillAt, e.Deadline = now.Add(m.GetKillIn().AsDuration()), now.Add(m.GetDeadlineIn().AsDuration())
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

// fail ends the hold with the stream.
func (h *Hold) fail(err error) {
	h.mu.Lock()
	if h.err == nil && !errors.Is(err, io.EOF) {
		h.err = translate(err)
	}
	h.mu.Unlock()
	h.end(ownership.AuthorityUnreachable, "the sidecar ended the connection", nil)
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
	case h.event.Successor != nil:
		return &BusyError{Scope: h.scope.String(), Holder: *h.event.Successor, Waited: h.event.Reason == ownership.WaitTimeout, Message: h.event.Detail}
	}
	return &RefusedError{Reason: string(h.event.Reason), Detail: h.event.Detail}
}

// Release gives the scope back: no new effect starts, what runs settles. It
// returns how many effects have an unknown outcome.
func (h *Hold) Release(ctx context.Context) (unknown int, err error) {
	h.mu.Lock()
	h.released = true
	key := h.last.GetHoldKey()
	h.mu.Unlock()
	h.lose(nil)
	defer h.cancel()
	m, err := h.c.api.Release(ctx, &pb.LocalReleaseRequest{HoldKey: key})
	if err != nil {
		return 0, fmt.Errorf("release %s: %w", h.scope, translate(err))
	}
	return int(m.GetUnknownEffects()), nil
}

// guard ends the hold at its deadline by this process' own clock: the sidecar
// may be dead, or we may have been stopped.
type guard struct {
	h      *Hold
	wake   chan boottime.Instant
	ending chan struct{}
}

func newGuard(h *Hold) *guard {
	g := &guard{h: h, wake: make(chan boottime.Instant, 1), ending: make(chan struct{})}
	go g.run()
	return g
}

// arm tells the guard a deadline; the latest counts.
func (g *guard) arm(at boottime.Instant) {
	select {
	case <-g.wake:
	default:
	}
	g.wake <- at
}

func (g *guard) stop() { close(g.ending) }

func (g *guard) run() {
	var deadline boottime.Instant
	timer := g.h.c.clock.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-g.ending:
			return
		case deadline = <-g.wake:
		case <-timer.C():
		}
		now := g.h.c.clock.Boot()
		if deadline != 0 && !now.Before(deadline) {
			g.h.end(ownership.Expired, "the hard deadline passed without a confirmation", nil)
			deadline = 0
		}
		next := time.Hour
		if deadline != 0 {
			next = deadline.Sub(now)
		}
		timer.Reset(next)
	}
}
