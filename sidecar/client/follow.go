package client

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// Pauses between attempts to find the sidecar again.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = 200 * time.Millisecond
)

// events is a stream of a hold's events.
type events = grpc.ServerStreamingClient[pb.HoldEvent]

// follow reads events until the hold has ended. When the sidecar goes away it
// looks for the next one, up to the hard deadline: a restart of the sidecar is
// not the end of the work (DESIGN 6.9).
func (h *Hold) follow(life context.Context, stream events, onEvent func(Event)) {
	defer close(h.ended)
	defer h.settle()
	guard := newGuard(h)
	defer guard.stop()
	tell := func(e Event) {
		guard.arm(e.Deadline)
		if onEvent != nil {
			onEvent(e)
		}
	}
	for {
		err := h.read(stream, tell)
		if !h.goesOn() {
			h.fail(err)
			return
		}
		tell(h.doubt())
		if stream = h.attach(life, tell); stream == nil {
			return
		}
	}
}

// read delivers what a stream says until it ends.
func (h *Hold) read(stream events, tell func(Event)) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		h.deliver(m, tell)
	}
}

func (h *Hold) deliver(m *pb.HoldEvent, tell func(Event)) {
	e := h.take(m)
	tell(e)
	switch e.State {
	case ownership.Owned:
		h.settle()
	case ownership.Lost, ownership.Unowned:
		h.end(e.Reason, e.Detail, e.Successor)
	case ownership.Acquiring, ownership.Waiting, ownership.Uncertain, ownership.Reconciling, ownership.Releasing:
	}
}

// goesOn reports whether a hold without a stream is worth another one.
func (h *Hold) goesOn() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.owned && !h.released && h.ctx.Err() == nil
}

// doubt is the event of a sidecar that went away.
func (h *Hold) doubt() Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.event.State, h.event.Reason, h.event.Detail = ownership.Uncertain, ownership.AuthorityUnreachable, "the sidecar does not answer"
	return h.event
}

// attach finds the sidecar again. Without a stream the hold has ended.
func (h *Hold) attach(life context.Context, tell func(Event)) events {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		stream, err := h.c.api.Hold(life, &pb.HoldRequest{HoldKey: h.Key()})
		if err == nil {
			var m *pb.HoldEvent
			if m, err = stream.Recv(); err == nil {
				h.deliver(m, tell)
				return stream
			}
		}
		if status.Code(err) == codes.NotFound {
			h.end(ownership.Restarted, "the sidecar does not know the hold any more", nil)
			return nil
		}
		timer := h.c.clock.NewTimer(pause)
		select {
		case <-timer.C():
		case <-h.ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// fail ends the hold with its stream, unless an event did already.
func (h *Hold) fail(err error) {
	if h.ctx.Err() != nil {
		return
	}
	h.mu.Lock()
	if h.err == nil && !errors.Is(err, io.EOF) {
		h.err = translate(err)
	}
	h.mu.Unlock()
	h.end(ownership.AuthorityUnreachable, "the sidecar ended the connection", nil)
}
