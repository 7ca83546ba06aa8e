package rpc

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"

	"github.com/forgeyard/concurrency/authority/roster"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/wire"
)

// Dialer opens streams to the other end of a tunnel. Closing it ends the tunnel.
type Dialer interface {
	ClientConn(opts ...grpc.DialOption) (*grpc.ClientConn, error)
	Close() error
}

// remote calls NodeService of a sidecar. The connection is made at the first
// call: most nodes are never asked anything.
type remote struct {
	tunnel Dialer

	mu   sync.Mutex
	conn *grpc.ClientConn
}

// NewRemote returns the sidecar behind a tunnel; Close it when the tunnel ends.
func NewRemote(tunnel Dialer) *remote { return &remote{tunnel: tunnel} }

var _ roster.Remote = (*remote)(nil)

func (r *remote) client() (pb.NodeServiceClient, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn == nil {
		conn, err := r.tunnel.ClientConn()
		if err != nil {
			return nil, fmt.Errorf("call sidecar: %w", err)
		}
		r.conn = conn
	}
	return pb.NewNodeServiceClient(r.conn), nil
}

// Close ends the connection, if there is one.
func (r *remote) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn == nil {
		return nil
	}
	return r.conn.Close()
}

// Disconnect implements roster.Remote.
func (r *remote) Disconnect() error { return r.tunnel.Close() }

// Nudge implements roster.Remote.
func (r *remote) Nudge(ctx context.Context, session string, v lease.SetVersion) error {
	c, err := r.client()
	if err != nil {
		return err
	}
	_, err = c.Nudge(ctx, &pb.NudgeRequest{Session: session, Version: wire.ToVersion(v)})
	return err
}

// Wake implements roster.Remote.
func (r *remote) Wake(ctx context.Context, scopes []string) error {
	c, err := r.client()
	if err != nil {
		return err
	}
	_, err = c.Wake(ctx, &pb.WakeRequest{Scopes: scopes})
	return err
}

// Inspect implements roster.Remote.
func (r *remote) Inspect(ctx context.Context, q roster.Question) (roster.Report, error) {
	c, err := r.client()
	if err != nil {
		return roster.Report{}, err
	}
	got, err := c.Inspect(ctx, &pb.InspectRequest{Effects: q.Effects, EffectLimit: int32(q.Limit)})
	if err != nil {
		return roster.Report{}, err
	}
	out := roster.Report{Node: got.GetNode(), State: got.GetState()}
	for _, h := range got.GetHolds() {
		out.Holds = append(out.Holds, roster.Hold{
			Lease: h.GetLease(), Scope: h.GetScope(), Epoch: epoch.Epoch(h.GetEpoch()), State: h.GetState(), Reason: h.GetReason(),
			InFlight: int(h.GetInFlight()), Unknown: int(h.GetUnknownEffects()),
			Holder: lease.Holder{Kind: lease.HolderKind(h.GetHolder().GetKind()), ID: h.GetHolder().GetId()},
		})
	}
	for _, e := range got.GetEffects() {
		if parsed, err := wire.FromEffect(e); err == nil {
			out.Effects = append(out.Effects, parsed)
		}
	}
	return out, nil
}
