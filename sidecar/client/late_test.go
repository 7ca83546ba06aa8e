package client_test

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/sidecar/client"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// lateSidecar sends one event that was true an hour ago: as it lies in the
// socket of a caller that was stopped for so long.
type lateSidecar struct {
	pb.UnimplementedLocalServiceServer
}

// Hold implements pb.LocalServiceServer.
func (lateSidecar) Hold(_ *pb.HoldRequest, stream grpc.ServerStreamingServer[pb.HoldEvent]) error {
	const secondsAfterBoot = int64(time.Second)
	err := stream.Send(&pb.HoldEvent{
		HoldKey: "00000000000000000000000000000001", Lease: "L", Epoch: 7, State: string(ownership.Owned),
		DeadlineIn: durationpb.New(time.Hour), DeadlineAtBoottime: secondsAfterBoot,
		KillIn: durationpb.New(time.Hour), KillAtBoottime: secondsAfterBoot,
	})
	if err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func TestEventThatIsReadLateGrantsNoTime(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	srv := grpc.NewServer()
	pb.RegisterLocalServiceServer(srv, lateSidecar{})
	go func() { _ = srv.Serve(l) }() // ends with Stop
	t.Cleanup(srv.Stop)
	c, err := client.Dial(socket)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	h, err := c.Acquire(within(t), prod(t))
	require.NoError(t, err)
	var lost *client.LostError
	require.ErrorAs(t, cause(t, h), &lost)
	require.Equal(t, string(ownership.Expired), lost.Reason)
}
