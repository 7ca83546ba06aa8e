package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/shared/wire"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// Client talks to the sidecar on this machine.
type Client struct {
	conn  *grpc.ClientConn
	api   pb.LocalServiceClient
	clock clock.Clock
}

// Dial prepares a client for the sidecar's unix socket. It connects with the
// first call.
func Dial(socket string) (*Client, error) {
	conn, err := grpc.NewClient("passthrough:///sidecar",
		grpc.WithTransportCredentials(insecure.NewCredentials()), // a unix socket of the same machine
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}),
		grpc.WithDisableRetry(),
		grpc.WithConnectParams(grpc.ConnectParams{ // a restarted sidecar is found well before uncertain_after
			Backoff: backoff.Config{BaseDelay: firstPause, Multiplier: 2, Jitter: 0.2, MaxDelay: longestPause}, MinConnectTimeout: time.Second,
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("dial sidecar: %w", err)
	}
	return &Client{conn: conn, api: pb.NewLocalServiceClient(conn), clock: clock.System()}, nil
}

// Close closes the connection; holds that were not released end unclean.
func (c *Client) Close() error { return c.conn.Close() }

// API is the sidecar's service itself, for what this library does not wrap.
func (c *Client) API() pb.LocalServiceClient { return c.api }

// Acquire takes a scope, waiting as the options say, and returns once it is
// owned. ctx bounds the acquisition only; the hold lives until Release, its
// loss, or the end of the process. Errors: *BusyError, *RefusedError,
// ErrUnreachable, ctx's.
func (c *Client) Acquire(ctx context.Context, s scope.Scope, opts ...Option) (*Hold, error) {
	o := options{}
	for _, opt := range opts {
		opt(&o)
	}
	req := &pb.HoldRequest{Scope: s.String(), CommandId: o.commandID, Purpose: string(o.purpose)}
	if o.wait > 0 {
		req.Wait = durationpb.New(o.wait)
	}
	if o.holder != nil {
		req.Holder = wire.ToHolder(*o.holder)
	}
	life, cancel := context.WithCancel(context.Background())
	stream, err := c.api.Hold(life, req)
	if err != nil {
		cancel()
		return nil, translate(err)
	}
	h := newHold(c, s, cancel)
	go h.follow(life, stream, o.onWait)
	select {
	case <-h.ready:
	case <-ctx.Done():
		h.end(ownership.CallerGone, "given up", nil)
		cancel()
		<-h.ended
		return nil, ctx.Err()
	}
	if err := h.refused(); err != nil {
		cancel()
		return nil, err
	}
	return h, nil
}

// translate turns what the sidecar or the connection said into domain errors.
func translate(err error) error {
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled:
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	case codes.InvalidArgument, codes.FailedPrecondition, codes.NotFound, codes.PermissionDenied:
		return &RefusedError{Reason: string(ownership.Refused), Detail: status.Convert(err).Message()}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}
