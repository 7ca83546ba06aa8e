package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

// Local speaks JSON to a sidecar's unix socket, as curl would.
type Local struct {
	client *http.Client
}

// NewLocal connects lazily.
func NewLocal(socket string) *Local {
	return &Local{client: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}}
}

// Acquire asks for a hold that lives as long as the calling process.
func (l *Local) Acquire(ctx context.Context, r *pb.HoldRequest) (*pb.HoldEvent, error) {
	out := &pb.HoldEvent{}
	return out, l.call(ctx, http.MethodPost, "/v1/acquire", r, out)
}

// Release gives a hold back.
func (l *Local) Release(ctx context.Context, key string) (*pb.HoldEvent, error) {
	out := &pb.HoldEvent{}
	return out, l.call(ctx, http.MethodPost, "/v1/release", &pb.LocalReleaseRequest{HoldKey: key}, out)
}

// Status is the sidecar's own.
func (l *Local) Status(ctx context.Context) (*pb.StatusResponse, error) {
	out := &pb.StatusResponse{}
	return out, l.call(ctx, http.MethodGet, "/v1/status", nil, out)
}

// Effects lists what the journal knows.
func (l *Local) Effects(ctx context.Context) (*pb.EffectsResponse, error) {
	out := &pb.EffectsResponse{}
	return out, l.call(ctx, http.MethodGet, "/v1/effects", nil, out)
}

func (l *Local) call(ctx context.Context, method, path string, in, out proto.Message) error {
	var body io.Reader
	if in != nil {
		text, err := protojson.Marshal(in)
		if err != nil {
			return fmt.Errorf("call sidecar: %w", err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://sidecar"+path, body)
	if err != nil {
		return fmt.Errorf("call sidecar: %w", err)
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return fmt.Errorf("call sidecar: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("call sidecar: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("call sidecar: %s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(text))
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, out); err != nil {
		return fmt.Errorf("call sidecar: %s %s: %w", method, path, err)
	}
	return nil
}

// Close gives the connections back.
func (l *Local) Close() { l.client.CloseIdleConnections() }
