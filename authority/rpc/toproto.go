package rpc

import (
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/wire"
)

func toAudit(a lease.Audit) *pb.AuditEntry {
	return &pb.AuditEntry{
		At: wire.ToTime(a.At), Actor: a.Actor, Action: a.Action, Scope: a.Scope, Lease: a.Lease,
		Node: a.Node, Epoch: uint64(a.Epoch), Reason: a.Reason,
	}
}

func toPolicy(p lease.Policy, source string) *pb.Policy {
	return &pb.Policy{
		Requirement: string(p.Requirement), MinTtl: durationpb.New(p.MinTTL), MaxTtl: durationpb.New(p.MaxTTL),
		LockDelay: durationpb.New(p.LockDelay), ClaimTimeout: durationpb.New(p.ClaimTimeout), MaxHold: durationpb.New(p.MaxHold),
		OnUncleanEnd: string(p.OnUncleanEnd), Supersedable: p.Supersedable, Source: source,
	}
}
