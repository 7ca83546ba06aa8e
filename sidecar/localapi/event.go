package localapi

import (
	"os"
	"sort"
	"syscall"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/wire"
	"github.com/forgeyard/concurrency/sidecar/keeper"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// event is a term as its holder gets it: instants become durations from now.
// The secret goes to the holder alone.
func (v *service) event(t ownership.Term, own bool) *pb.HoldEvent {
	now := v.s.cfg.Clock.Boot()
	_, unknown := v.s.cfg.Effects.Counts(t.Lease)
	e := &pb.HoldEvent{
		Scope: t.Scope.String(), Lease: t.Lease, Epoch: uint64(t.Epoch), State: string(t.State), Reason: string(t.Reason),
		Detail: t.Detail, Holder: wire.ToSummary(t.Successor), Owner: wire.ToHolder(t.Holder), UnknownEffects: int32(unknown),
		Final: t.State == ownership.Lost || t.State == ownership.Unowned, Settling: t.Settling,
		Purpose: string(t.Purpose),
	}
	if t.State == ownership.Owned || t.State == ownership.Uncertain || t.State == ownership.Releasing {
		e.UncertainIn, e.KillIn, e.DeadlineIn = left(t.UncertainAt, now), left(t.KillAt, now), left(t.Deadline, now)
		e.KillAtBoottime, e.DeadlineAtBoottime = int64(t.KillAt), int64(t.Deadline)
	}
	if own {
		e.HoldKey = t.Key.Secret()
		if t.State != ownership.Unowned {
			e.BaseUrls = v.s.cfg.BaseURLs(t.Key)
		}
	}
	return e
}

func left(at, now boottime.Instant) *durationpb.Duration {
	return durationpb.New(max(at.Sub(now), 0))
}

// status is what the peer may know of this sidecar.
func (v *service) status(peer Peer, held []keeper.Held) *pb.StatusResponse {
	s := v.s.cfg.Keeper.Status()
	out := &pb.StatusResponse{
		Node: v.s.cfg.Node, Session: s.Session, Authority: v.s.cfg.Uplink(), Connected: v.s.cfg.Uplink() != "",
		State: s.State, Detail: s.Detail, Software: v.s.cfg.Software, Proxy: v.s.cfg.Proxy(),
	}
	if s.ConfirmedAgo >= 0 {
		out.ConfirmedAgo = durationpb.New(s.ConfirmedAgo.Round(time.Millisecond))
	}
	for _, h := range held {
		if peer.maySee(h.UID) {
			e := v.event(h.Term, peer.mayUse(h.UID))
			e.InFlight = int32(h.InFlight)
			out.Holds = append(out.Holds, e)
		}
	}
	sort.Slice(out.Holds, func(i, j int) bool { return out.Holds[i].GetScope() < out.Holds[j].GetScope() })
	return out
}

func ownerOf(info os.FileInfo) uint32 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Uid
	}
	return ^uint32(0)
}
