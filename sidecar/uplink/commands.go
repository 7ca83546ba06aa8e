package uplink

import (
	"cmp"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/wire"
	"github.com/forgeyard/concurrency/sidecar/keeper"
)

func (u *Uplink) toCommand(c keeper.Command) *pb.Command {
	out := &pb.Command{CommandId: c.ID, Session: c.Session, Nonce: c.Nonce}
	switch {
	case c.Acquire != nil:
		out.Action = &pb.Command_Acquire{Acquire: &pb.Acquire{
			Scope: c.Acquire.Scope.String(), Holder: wire.ToHolder(c.Acquire.Holder),
			Purpose: string(cmp.Or(c.Acquire.Purpose, lease.Work)), LeaseId: c.Acquire.Lease,
		}}
	case c.Claim != nil:
		out.Action = &pb.Command_Claim{Claim: toRef(*c.Claim)}
	case c.Release != nil:
		out.Action = &pb.Command_Release{Release: &pb.Release{
			Lease: toRef(c.Release.LeaseRef), Why: string(c.Release.Why), UnknownEffects: int32(c.Release.Unknown),
			Left: wire.ToEffects(c.Release.Left, u.cfg.Node), Partial: c.Release.Partial,
		}}
	case c.Account != nil:
		out.Action = &pb.Command_Account{Account: &pb.Account{
			Lease: toRef(c.Account.LeaseRef), UnknownEffects: int32(c.Account.Unknown), Left: wire.ToEffects(c.Account.Left, u.cfg.Node),
		}}
	case c.Resolve != nil:
		out.Action = &pb.Command_Resolve{Resolve: &pb.Resolve{
			Lease: toRef(c.Resolve.LeaseRef), Resolutions: wire.ToResolutions(c.Resolve.Resolutions),
			Reopen: c.Resolve.Reopen, Seen: c.Resolve.Seen,
		}}
	default:
		out.Action = &pb.Command_Close{Close: &pb.CloseSession{}}
	}
	return out
}

func toRef(r keeper.LeaseRef) *pb.LeaseRef {
	return &pb.LeaseRef{Scope: r.Scope.String(), Lease: r.Lease, Epoch: r.Epoch}
}
