package rpc_test

import (
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

func TestStreamRules(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, tc := range map[string]struct {
		first *pb.UpFrame
		code  codes.Code
		text  string
	}{
		"first frame must register": {
			&pb.UpFrame{Seq: 1, Body: &pb.UpFrame_Heartbeat{Heartbeat: &pb.Heartbeat{}}}, codes.FailedPrecondition, "must be register"},
		"seq zero": {&pb.UpFrame{Body: &pb.UpFrame_Register{Register: &pb.Register{}}}, codes.InvalidArgument, "seq"},
		"protocol": {
			&pb.UpFrame{Seq: 1, Body: &pb.UpFrame_Register{Register: &pb.Register{ProtocolMin: 7, ProtocolMax: 9}}},
			codes.FailedPrecondition, "this authority speaks 1 to 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := b.connect("node-"+strings.ToLower(ulid.Make().String()[20:]), "acme")
			require.NoError(t, s.stream.Send(&pb.OpenRequest{Frames: []*pb.UpFrame{tc.first}}))
			_, err := s.stream.Recv()
			require.Equal(t, tc.code, status.Code(err), "%v", err)
			require.ErrorContains(t, err, tc.text)
		})
	}
	a, other := b.join("node-a", "acme"), b.join("node-b", "acme")
	for _, f := range []*pb.UpFrame{
		{Body: &pb.UpFrame_Heartbeat{Heartbeat: &pb.Heartbeat{Session: other.session, Nonce: other.nonce}}},
		{Body: &pb.UpFrame_Heartbeat{Heartbeat: &pb.Heartbeat{Session: a.session, Nonce: "another"}}},
		{Body: &pb.UpFrame_FetchSet{FetchSet: &pb.FetchSet{Session: other.session, Nonce: other.nonce}}},
		{Body: &pb.UpFrame_Command{Command: &pb.Command{Session: other.session, Nonce: other.nonce, CommandId: ulid.Make().String()}}},
		{},
	} {
		require.NotEmpty(t, a.ask(f).GetFault().GetMessage(), "%v", f)
	}
}

func TestBadInputNamesFieldAndValue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.join("node-a", "acme")
	change := func(f func(*pb.Command)) *pb.Command {
		c := acquireCommand(prod)
		f(c)
		return c
	}
	for want, c := range map[string]*pb.Command{
		`scope "prod": scope must read tenant/kind:name`: acquireCommand("prod"),
		`scope "acme/planet:prod": kind must be one of`:  acquireCommand("acme/planet:prod"),
		`command_id "nonsense": must be a ULID`:          change(func(c *pb.Command) { c.CommandId = "nonsense" }),
		`lease_id "x": must be a ULID`:                   change(func(c *pb.Command) { c.GetAcquire().LeaseId = "x" }),
		`holder.kind "dog": must be one of`:              change(func(c *pb.Command) { c.GetAcquire().Holder.Kind = "dog" }),
		`holder.id "": must be 1 to 200 bytes`:           change(func(c *pb.Command) { c.GetAcquire().Holder.Id = "" }),
		`purpose "fun": must be work`:                    change(func(c *pb.Command) { c.GetAcquire().Purpose = "fun" }),
		`why "boredom": must be released`: {Action: &pb.Command_Release{Release: &pb.Release{
			Lease: &pb.LeaseRef{Scope: prod}, Why: "boredom"}}},
		`extend "0s": must be above 0`: {Action: &pb.Command_Renew{Renew: &pb.RenewLease{Lease: &pb.LeaseRef{Scope: prod}}}},
	} {
		require.Contains(t, a.command(c).GetFault().GetMessage(), want)
	}
	old := change(func(c *pb.Command) {
		c.CommandId = ulid.MustNew(ulid.Timestamp(b.clock.Now().Add(-25*time.Hour)), ulid.DefaultEntropy()).String()
	})
	require.Equal(t, "command-too-old", a.command(old).GetAnswer().GetReason())

	low := b.connect("node-low", "acme")
	frame := low.registerFrame()
	frame.Ttl = durationpb.New(time.Second)
	got := low.ask(&pb.UpFrame{Body: &pb.UpFrame_Register{Register: frame}}).GetRegistered()
	require.Equal(t, "ttl-out-of-bounds", got.GetReason())
	require.Contains(t, got.GetDetail(), "session ttl 1s: this authority allows 2s to 30s")
}
