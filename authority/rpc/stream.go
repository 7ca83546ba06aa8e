package rpc

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/forgeyard/concurrency/authority/coordinator"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/epoch"
)

// Bounds of one stream.
const (
	maxOutstanding = 1024 // requests not yet answered; beyond: reading stops
	maxAnswerBatch = 256  // answers of one message
)

// stream is one run of SessionService.Open.
type stream struct {
	service *Sessions
	peer    Peer
	grpc    grpc.BidiStreamingServer[pb.OpenRequest, pb.OpenResponse]
	cancel  context.CancelCauseFunc

	session string // set by register, before any other frame is read
	nonce   string
	joined  epoch.Generation // the one in force when it registered
	leave   func()           // the roster, when registered

	answers chan *pb.DownFrame // of capacity maxOutstanding: an answer never blocks
	permits chan struct{}      // one per outstanding request
	stop    <-chan struct{}    // closed when the authority stops

	mu       sync.Mutex
	finished bool // nothing more is taken in
	working  sync.WaitGroup
}

// errAnew ends a stream whose node must register again.
var errAnew = errors.New("the store may have forgotten what this node was granted: register again with receipts")

var errStopping = errors.New("the authority is stopping")

func (s *stream) run(ctx context.Context) error {
	ctx, s.cancel = context.WithCancelCause(ctx)
	defer s.cancel(nil)
	wrote := make(chan error, 1)
	read := make(chan error, 1)
	go func() { wrote <- s.write(ctx) }()
	go func() { read <- s.read(ctx) }()
	var err error
	select {
	case err = <-read:
		return streamError(s.finish(err, wrote))
	case <-s.stop:
		return streamError(s.finish(errStopping, wrote))
	case err = <-wrote:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return streamError(err)
}

// finish sends the answers to what was read and ends with why.
func (s *stream) finish(why error, wrote <-chan error) error {
	s.mu.Lock()
	s.finished = true
	s.mu.Unlock()
	s.working.Wait()
	close(s.answers)
	if err := <-wrote; why == nil {
		return err
	}
	return why
}

func streamError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errAnew):
		return status.Error(codes.Aborted, err.Error())
	case errors.Is(err, coordinator.ErrCertificateExpired):
		return status.Error(codes.PermissionDenied, err.Error())
	case errors.Is(err, errStopping), errors.Is(err, context.Canceled):
		return status.Error(codes.Unavailable, err.Error())
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.Unknown, err.Error())
}

// takeIn counts a request in, unless the stream is finishing.
func (s *stream) takeIn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return false
	}
	s.working.Add(1)
	return true
}

// write sends whatever is ready as one message.
func (s *stream) write(ctx context.Context) error {
	for {
		select {
		case first, ok := <-s.answers:
			if !ok {
				return nil
			}
			if err := s.grpc.Send(&pb.OpenResponse{Frames: s.ready(first)}); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ready adds to first what is there already.
func (s *stream) ready(first *pb.DownFrame) []*pb.DownFrame {
	batch := []*pb.DownFrame{first}
	for len(batch) < maxAnswerBatch {
		select {
		case f, ok := <-s.answers:
			if !ok {
				return batch
			}
			batch = append(batch, f)
		default:
			return batch
		}
	}
	return batch
}

// read takes in frames until the sidecar half-closes. The first one registers.
func (s *stream) read(ctx context.Context) error {
	for first := true; ; {
		m, err := s.grpc.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, f := range m.Frames {
			if f.GetSeq() == 0 {
				return status.Error(codes.InvalidArgument, "seq 0: must be above 0")
			}
			if first {
				first = false
				if err := s.registerCounted(ctx, f); err != nil {
					return err
				}
				continue
			}
			if err := s.dispatch(ctx, f); err != nil {
				return err
			}
		}
	}
}

// registerCounted keeps the stream from finishing over an answer that is on
// its way.
func (s *stream) registerCounted(ctx context.Context, f *pb.UpFrame) error {
	if !s.takeIn() {
		return errStopping
	}
	defer s.working.Done()
	return s.register(ctx, f)
}

// dispatch carries a frame in a goroutine of its own, within the bound.
func (s *stream) dispatch(ctx context.Context, f *pb.UpFrame) error {
	if f.GetRegister() != nil {
		return status.Error(codes.FailedPrecondition, "a stream registers once")
	}
	if s.session == "" {
		return status.Error(codes.FailedPrecondition, "the registration was not accepted")
	}
	select {
	case s.permits <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !s.takeIn() {
		return errStopping
	}
	go func() {
		defer s.working.Done()
		if answer := s.serve(ctx, f); answer != nil {
			answer.Seq = f.GetSeq()
			s.answers <- answer
		}
		<-s.permits
	}()
	return nil
}

// caller is the node behind the stream.
func (s *stream) caller() coordinator.Caller { return s.peer.caller() }
