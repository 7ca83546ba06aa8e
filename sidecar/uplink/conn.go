package uplink

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/tunnel"
	"github.com/forgeyard/concurrency/sidecar/keeper"
)

// maxBatch bounds the frames of one message.
const maxBatch = 256

// errStreamEnded fails what was in flight when a stream ended.
var errStreamEnded = errors.New("stream ended")

// conn is one stream of frames.
type conn struct {
	addr   string
	server *x509.Certificate // of the replica
	calls  pb.SessionServiceClient
	stream grpc.BidiStreamingClient[pb.OpenRequest, pb.OpenResponse]
	cancel context.CancelFunc
	out    chan *pb.UpFrame
	done   chan struct{}

	mu      sync.Mutex
	seq     uint64
	served  boottime.Instant // when it last answered a heartbeat, or registered
	waiting map[uint64]chan *pb.DownFrame
	err     error
}

func open(ctx context.Context, t *tunnel.Tunnel, addr string) (*conn, error) {
	cc, err := t.ClientConn()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	calls := pb.NewSessionServiceClient(cc)
	stream, err := calls.Open(ctx)
	if err != nil {
		cancel()
		cc.Close()
		return nil, fmt.Errorf("open session stream: %w", err)
	}
	return &conn{
		addr: addr, server: t.Peer(), calls: calls, stream: stream, cancel: func() { cancel(); cc.Close() },
		out: make(chan *pb.UpFrame, maxBatch), done: make(chan struct{}), waiting: map[uint64]chan *pb.DownFrame{},
	}, nil
}

// ask sends one frame and waits for its answer.
func (c *conn) ask(ctx context.Context, f *pb.UpFrame) (*pb.DownFrame, error) {
	reply := make(chan *pb.DownFrame, 1)
	c.mu.Lock()
	c.seq++
	f.Seq = c.seq
	c.waiting[f.Seq] = reply
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, f.Seq)
		c.mu.Unlock()
	}()
	select {
	case c.out <- f:
	case <-c.done:
		return nil, errStreamEnded
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case down := <-reply:
		return down, nil
	case <-c.done:
		return nil, errStreamEnded
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// write is the one sender: what waits goes together.
func (c *conn) write() {
	for {
		var batch []*pb.UpFrame
		select {
		case f := <-c.out:
			batch = append(batch, f)
		case <-c.done:
			return
		}
		for more := true; more && len(batch) < maxBatch; {
			select {
			case f := <-c.out:
				batch = append(batch, f)
			default:
				more = false
			}
		}
		if err := c.stream.Send(&pb.OpenRequest{Frames: batch}); err != nil {
			c.end(fmt.Errorf("send: %w", err))
			return
		}
	}
}

// read hands answers to who waits for them; answers that nobody waits for any
// more are late, and dropped.
func (c *conn) read() {
	for {
		msg, err := c.stream.Recv()
		if err != nil {
			c.end(fmt.Errorf("receive: %w", err))
			return
		}
		c.mu.Lock()
		for _, f := range msg.GetFrames() {
			if reply, ok := c.waiting[f.GetSeq()]; ok {
				delete(c.waiting, f.GetSeq())
				reply <- f
			}
		}
		c.mu.Unlock()
	}
}

// end closes the connection once, with the first cause.
func (c *conn) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	c.cancel()
	close(c.done)
}

// over reports whether it was ended.
func (c *conn) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *conn) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// errOtherAnswer is an answer that this protocol does not know: it decides
// nothing.
var errOtherAnswer = fmt.Errorf("%w: authority: answer of another kind", keeper.ErrUnreachable)

// undecided is why an answer does not decide a command.
func undecided(f *pb.DownFrame) error {
	if f.GetFault() == nil {
		return errOtherAnswer
	}
	return faultError(f.GetFault())
}

// faultError turns an undecided answer into an error.
func faultError(f *pb.Fault) error {
	if f.GetMalformed() {
		return &keeper.MalformedError{Detail: f.GetMessage()}
	}
	err := fmt.Errorf("%w: authority: %s", keeper.ErrUnreachable, f.GetMessage())
	if f.GetRetryAfter() != nil {
		return &overloadError{cause: err, retryAfter: f.GetRetryAfter().AsDuration()}
	}
	return err
}
