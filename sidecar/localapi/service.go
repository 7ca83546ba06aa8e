package localapi

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
	"google.golang.org/grpc"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/shared/wire"
	"github.com/forgeyard/concurrency/sidecar/keeper"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// service is LocalService.
type service struct {
	pb.UnsafeLocalServiceServer
	s *Server
}

var _ pb.LocalServiceServer = (*service)(nil)

// Hold implements pb.LocalServiceServer: the hold lives as long as the stream.
func (v *service) Hold(r *pb.HoldRequest, stream grpc.ServerStreamingServer[pb.HoldEvent]) error {
	return toStatus(v.hold(stream.Context(), r, stream.Send))
}

// hold is a stream hold, whoever carries the events.
func (v *service) hold(ctx context.Context, r *pb.HoldRequest, send func(*pb.HoldEvent) error) error {
	peer, err := peerOf(ctx)
	if err != nil {
		return err
	}
	key, terms, err := v.openStream(ctx, peer, r)
	if err != nil {
		return err
	}
	defer func() {
		if v.s.root.Err() == nil { // our own end is not the caller's: he attaches to the next sidecar
			v.s.cfg.Keeper.Abandon(key) // nothing happens when it was released
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-v.s.root.Done():
			return keeper.ErrStopped
		case t, open := <-terms:
			if !open {
				return nil
			}
			if err := send(v.event(t, true)); err != nil {
				return err
			}
		}
	}
}

// openStream starts a request, or attaches to a hold that survived a restart.
func (v *service) openStream(ctx context.Context, peer Peer, r *pb.HoldRequest) (ownership.Key, <-chan ownership.Term, error) {
	if r.GetHoldKey() != "" {
		key, err := ownership.ParseKey(r.GetHoldKey())
		if err != nil {
			return key, nil, err
		}
		if _, err := v.s.cfg.Keeper.Reattach(ctx, key, peer.UID, keeper.Binding{Stream: true}); err != nil {
			return key, nil, err
		}
		terms, err := v.s.cfg.Keeper.Watch(ctx, key)
		return key, terms, err
	}
	req, err := v.request(peer, r)
	if err != nil {
		return ownership.Key{}, nil, err
	}
	if r.GetPid() != 0 || r.GetDetach() != nil {
		return ownership.Key{}, nil, &inputError{"pid, detach", "", "belong to acquire: this hold is bound to its stream"}
	}
	req.Binding = keeper.Binding{Stream: true}
	return v.s.cfg.Keeper.Start(ctx, req)
}

// Acquire implements pb.LocalServiceServer: the hold lives as long as a
// process, or a time.
func (v *service) Acquire(ctx context.Context, r *pb.HoldRequest) (*pb.HoldEvent, error) {
	event, err := v.acquire(ctx, r)
	return event, toStatus(err)
}

func (v *service) acquire(ctx context.Context, r *pb.HoldRequest) (*pb.HoldEvent, error) {
	peer, err := peerOf(ctx)
	if err != nil {
		return nil, err
	}
	req, err := v.request(peer, r)
	if err != nil {
		return nil, err
	}
	if req.Binding, err = binding(peer, r); err != nil {
		return nil, err
	}
	key, terms, err := v.s.cfg.Keeper.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	t, err := seeThrough(ctx, terms)
	if err != nil {
		v.s.cfg.Keeper.Abandon(key)
		return nil, err
	}
	if t.State != ownership.Owned {
		return nil, &refusedError{event: v.event(t, true)}
	}
	if req.Binding.PID != 0 {
		v.s.watchProcess(key, req.Binding)
	}
	return v.event(t, true), nil
}

// seeThrough waits for ownership or the end of the request.
func seeThrough(ctx context.Context, terms <-chan ownership.Term) (ownership.Term, error) {
	var last ownership.Term
	for {
		select {
		case <-ctx.Done():
			return last, ctx.Err()
		case t, open := <-terms:
			if !open {
				return last, nil
			}
			if last = t; t.State == ownership.Owned {
				return t, nil
			}
		}
	}
}

// request reads what every form of asking has.
func (v *service) request(peer Peer, r *pb.HoldRequest) (keeper.Request, error) {
	s, err := scope.Parse(r.GetScope())
	if err != nil {
		return keeper.Request{}, err
	}
	wait := r.GetWait().AsDuration()
	if wait < 0 || wait > 7*24*time.Hour {
		return keeper.Request{}, &inputError{"wait", wait.String(), "must be between 0 and 168h"}
	}
	h := wire.FromHolder(r.GetHolder())
	if h == (lease.Holder{}) {
		h = lease.Holder{Kind: lease.HolderController, ID: fmt.Sprintf("%s-%d", processName(peer.PID), peer.PID)}
	}
	if !slices.Contains(holderKinds(), h.Kind) {
		return keeper.Request{}, &inputError{"holder.kind", string(h.Kind), fmt.Sprintf("must be one of %v", holderKinds())}
	}
	if h.ID == "" || len(h.ID) > 200 {
		return keeper.Request{}, &inputError{"holder.id", h.ID, "must have 1 to 200 characters"}
	}
	if id := r.GetCommandId(); id != "" {
		if _, err := ulid.ParseStrict(id); err != nil {
			return keeper.Request{}, &inputError{"command_id", id, "must be a ULID"}
		}
	}
	purpose := cmp.Or(lease.Purpose(r.GetPurpose()), lease.Work)
	if purpose != lease.Work && purpose != lease.Reconcile {
		return keeper.Request{}, &inputError{"purpose", r.GetPurpose(), "must be work or reconcile"}
	}
	return keeper.Request{Scope: s, Holder: h, Purpose: purpose, Wait: wait, CommandID: r.GetCommandId(), UID: peer.UID}, nil
}

func holderKinds() []lease.HolderKind {
	return []lease.HolderKind{
		lease.HolderRun, lease.HolderJobAttempt, lease.HolderController, lease.HolderDeployment, lease.HolderRelease,
		lease.HolderInfrastructureApply, lease.HolderQueueSubmission,
	}
}

func processName(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil || len(text) < 2 {
		return "process"
	}
	return string(text[:len(text)-1])
}

// binding says what an acquired hold is bound to.
func binding(peer Peer, r *pb.HoldRequest) (keeper.Binding, error) {
	if d := r.GetDetach(); d != nil {
		if r.GetPid() != 0 {
			return keeper.Binding{}, &inputError{"pid", fmt.Sprint(r.GetPid()), "must be absent beside detach"}
		}
		if d.AsDuration() <= 0 || d.AsDuration() > 24*time.Hour {
			return keeper.Binding{}, &inputError{"detach", d.AsDuration().String(), "must be above 0 and at most 24h"}
		}
		return keeper.Binding{Detach: d.AsDuration()}, nil
	}
	pid := int(r.GetPid())
	if pid == 0 || pid == peer.PID {
		if peer.StartTime == 0 {
			return keeper.Binding{}, &inputError{"pid", fmt.Sprint(peer.PID), "the calling process has ended"}
		}
		return keeper.Binding{PID: peer.PID, StartTime: peer.StartTime}, nil
	}
	info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		return keeper.Binding{}, &inputError{"pid", fmt.Sprint(pid), "no such process"}
	}
	if uid := ownerOf(info); uid != peer.UID && peer.UID != 0 {
		return keeper.Binding{}, &inputError{"pid", fmt.Sprint(pid), "must be a process of the same user"}
	}
	started, err := StartTime(pid)
	if err != nil {
		return keeper.Binding{}, &inputError{"pid", fmt.Sprint(pid), "no such process"}
	}
	return keeper.Binding{PID: pid, StartTime: started}, nil
}

// own finds a hold by its key, for its user.
func (v *service) own(ctx context.Context, text string) (ownership.Key, keeper.Held, error) {
	peer, err := peerOf(ctx)
	if err != nil {
		return ownership.Key{}, keeper.Held{}, err
	}
	key, err := ownership.ParseKey(text)
	if err != nil {
		return key, keeper.Held{}, err
	}
	held, err := v.s.cfg.Keeper.Holds(ctx)
	if err != nil {
		return key, keeper.Held{}, err
	}
	for _, h := range held {
		if h.Term.Key == key && peer.mayUse(h.UID) {
			return key, h, nil
		}
	}
	return key, keeper.Held{}, keeper.ErrNoHold // somebody else's looks like none
}

// Release implements pb.LocalServiceServer.
func (v *service) Release(ctx context.Context, r *pb.LocalReleaseRequest) (*pb.HoldEvent, error) {
	key, _, err := v.own(ctx, r.GetHoldKey())
	if err != nil {
		return nil, toStatus(err)
	}
	t, err := v.s.cfg.Keeper.Release(ctx, key)
	if err != nil {
		return nil, toStatus(err)
	}
	return v.event(t, true), nil
}

// Settle implements pb.LocalServiceServer.
func (v *service) Settle(ctx context.Context, r *pb.LocalSettleRequest) (*pb.HoldEvent, error) {
	key, _, err := v.own(ctx, r.GetHoldKey())
	if err != nil {
		return nil, toStatus(err)
	}
	t, err := v.s.cfg.Keeper.Settle(ctx, key)
	if err != nil {
		return nil, toStatus(err)
	}
	return v.event(t, true), nil
}

// Status implements pb.LocalServiceServer.
func (v *service) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	peer, err := peerOf(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	held, err := v.s.cfg.Keeper.Holds(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	return v.status(peer, held), nil
}

// Watch implements pb.LocalServiceServer.
func (v *service) Watch(r *pb.WatchRequest, stream grpc.ServerStreamingServer[pb.HoldEvent]) error {
	return toStatus(v.watch(stream.Context(), r.GetHoldKey(), stream.Send))
}

func (v *service) watch(ctx context.Context, text string, send func(*pb.HoldEvent) error) error {
	key, _, err := v.own(ctx, text)
	if err != nil {
		return err
	}
	terms, err := v.s.cfg.Keeper.Watch(ctx, key)
	if err != nil {
		return err
	}
	for t := range terms {
		if err := send(v.event(t, true)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Effects implements pb.LocalServiceServer.
func (v *service) Effects(ctx context.Context, r *pb.EffectsRequest) (*pb.EffectsResponse, error) {
	if _, err := peerOf(ctx); err != nil {
		return nil, toStatus(err)
	}
	limit, err := effectsFilter(r)
	if err != nil {
		return nil, toStatus(err)
	}
	out := &pb.EffectsResponse{}
	for _, e := range v.s.cfg.Effects.Effects(r.GetScope(), r.GetState(), limit) {
		out.Effects = append(out.Effects, wire.ToEffect(e, v.s.cfg.Node))
	}
	return out, nil
}

// Effects listed when the caller names no limit, and at most.
const (
	defaultEffects = 100
	mostEffects    = 10000
)

// effectsFilter checks what a caller wants to see and returns the limit.
func effectsFilter(r *pb.EffectsRequest) (int, error) {
	if r.GetScope() != "" {
		if _, err := scope.Parse(r.GetScope()); err != nil {
			return 0, err
		}
	}
	states := []effect.State{effect.Planned, effect.Started, effect.Succeeded, effect.Failed, effect.Unknown, effect.Reconciled}
	if s := effect.State(r.GetState()); s != "" && !slices.Contains(states, s) {
		return 0, &inputError{"state", r.GetState(), fmt.Sprintf("must be one of %v", states)}
	}
	limit := int(r.GetLimit())
	if limit < 0 || limit > mostEffects {
		return 0, &inputError{"limit", fmt.Sprint(limit), fmt.Sprintf("must be between 0 and %d", mostEffects)}
	}
	if limit == 0 {
		limit = defaultEffects
	}
	return limit, nil
}
