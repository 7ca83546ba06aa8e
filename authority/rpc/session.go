package rpc

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/forgeyard/concurrency/authority/coordinator"
	"github.com/forgeyard/concurrency/authority/engine"
	"github.com/forgeyard/concurrency/authority/roster"
	"github.com/forgeyard/concurrency/authority/store"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/wire"
)

// Protocol versions that this build speaks.
const (
	ProtocolMin = 1
	ProtocolMax = 1
)

// Peer is the node at the other end of a tunnel.
type Peer struct {
	Node        string
	Tenants     []string
	Certificate store.Certificate
	Remote      roster.Remote
}

// Sessions serves SessionService.
type Sessions struct {
	pb.UnsafeSessionServiceServer

	Coordinator *coordinator.Coordinator
	Roster      *roster.Roster
	AuthorityID string
	LockDelay   time.Duration
	Log         *zap.Logger
	Clock       clock.Clock // paces the end of streams at a stop; nil: all at once

	draining drain
}

var _ pb.SessionServiceServer = (*Sessions)(nil)

// Open serves one session.
func (s *Sessions) Open(g grpc.BidiStreamingServer[pb.OpenRequest, pb.OpenResponse]) error {
	peer, ok := peerOf(g.Context())
	if !ok {
		return status.Error(codes.Unauthenticated, "no node certificate")
	}
	stop, leave, ok := s.draining.enter()
	if !ok {
		return status.Error(codes.Unavailable, "the authority is stopping")
	}
	defer leave()
	st := &stream{
		stop:    stop,
		service: s, peer: peer, grpc: g,
		answers: make(chan *pb.DownFrame, maxOutstanding+1), // and the registration's
		permits: make(chan struct{}, maxOutstanding),
	}
	defer func() {
		if st.leave != nil {
			st.leave()
		}
	}()
	err := st.run(g.Context())
	s.Log.Info("session stream ended", zap.String("node", peer.Node), zap.String("session", st.session), zap.Error(err))
	return err
}

// Drain ends every stream: what it has asked is answered, within ctx, and
// nothing more is read. Later streams are refused.
func (s *Sessions) Drain(ctx context.Context) {
	s.draining.clock = s.Clock
	s.draining.run(ctx)
}

// register handles the first frame. An answer other than registered or resumed
// leaves the stream without a session: it is told and the stream ends.
func (s *stream) register(ctx context.Context, f *pb.UpFrame) error {
	r := f.GetRegister()
	if r == nil {
		return status.Error(codes.FailedPrecondition, "the first frame must be register")
	}
	protocol := min(r.GetProtocolMax(), ProtocolMax)
	if protocol < ProtocolMin || protocol < r.GetProtocolMin() {
		return status.Errorf(codes.FailedPrecondition, "protocol %d to %d: this authority speaks %d to %d",
			r.GetProtocolMin(), r.GetProtocolMax(), ProtocolMin, ProtocolMax)
	}
	a, _, err := s.service.Coordinator.Register(ctx, s.caller(), fromRegister(r))
	if err != nil {
		s.answers <- &pb.DownFrame{Seq: f.GetSeq(), Body: fault(err)}
		return nil
	}
	answer := &pb.Registered{
		Code: string(a.Code), Reason: string(a.Reason), Detail: a.Detail, Protocol: protocol, Version: wire.ToVersion(a.Version),
		AuthorityId: s.service.AuthorityID, RetryAfter: durationpb.New(a.RetryAfter), LockDelay: durationpb.New(s.service.LockDelay),
		RenewCertificate: s.service.Coordinator.Outdated(s.caller()),
	}
	if (a.Code == lease.Registered || a.Code == lease.Resumed) && a.Session != nil {
		s.session, s.nonce, answer.Session = a.Session.ID, r.GetNonce(), a.Session.ID
		s.joined = a.Version.Generation
		s.leave = s.service.Roster.Join(s.peer.Node, s.session, s.peer.Remote)
		s.service.Log.Info("session "+string(a.Code), zap.String("node", s.peer.Node), zap.String("session", s.session),
			zap.String("software", r.GetSoftware()))
	}
	s.answers <- &pb.DownFrame{Seq: f.GetSeq(), Body: &pb.DownFrame_Registered{Registered: answer}}
	return nil
}

func fromRegister(r *pb.Register) coordinator.Registration {
	out := coordinator.Registration{
		CommandID: r.GetCommandId(), Nonce: r.GetNonce(), BootID: r.GetBootId(),
		LockFile: lease.LockFile{Device: r.GetLockDevice(), Inode: r.GetLockInode()},
		TTL:      r.GetTtl().AsDuration(), Resume: r.GetResumeSession(), ResumeNonce: r.GetResumeNonce(),
	}
	for _, have := range r.GetReceipts() {
		out.Receipts = append(out.Receipts, coordinator.Receipt{
			Scope: have.GetScope(), Epoch: epoch.Epoch(have.GetEpoch()), Seal: have.GetSeal(),
		})
	}
	return out
}

// serve carries one frame. Without an answer the stream ends.
func (s *stream) serve(ctx context.Context, f *pb.UpFrame) *pb.DownFrame {
	switch b := f.GetBody().(type) {
	case *pb.UpFrame_Heartbeat:
		return s.heartbeat(ctx, b.Heartbeat)
	case *pb.UpFrame_FetchSet:
		return s.fetchSet(ctx, b.FetchSet)
	case *pb.UpFrame_Command:
		return s.command(ctx, b.Command)
	case *pb.UpFrame_Confirm:
		return s.confirm(ctx, b.Confirm)
	case *pb.UpFrame_Evidence:
		return s.evidence(ctx, b.Evidence)
	case *pb.UpFrame_Blocked:
		return s.blocked(ctx, b.Blocked)
	}
	return &pb.DownFrame{Body: fault(&coordinator.InputError{Field: "body", Problem: "is not known to this version"})}
}

// own fails unless the session is the one registered on this stream.
func (s *stream) own(session, nonce string) error {
	if session == s.session && nonce == s.nonce {
		return nil
	}
	return &coordinator.InputError{Field: "session", Value: session, Problem: "is not the one registered on this stream (" + s.session + "), or the nonce differs"}
}

func (s *stream) heartbeat(ctx context.Context, h *pb.Heartbeat) *pb.DownFrame {
	if err := s.own(h.GetSession(), h.GetNonce()); err != nil {
		return &pb.DownFrame{Body: fault(err)}
	}
	if err := s.service.Coordinator.Expired(s.caller()); err != nil {
		s.cancel(err)
		return nil
	}
	taken := s.report(ctx, h.GetEffects())
	a, ahead, err := s.service.Coordinator.Heartbeat(ctx, s.caller(), lease.Beat{
		Session: h.GetSession(), Nonce: h.GetNonce(), Applied: wire.FromVersion(h.GetApplied()),
	}, s.joined)
	if err != nil {
		return &pb.DownFrame{Body: fault(err)}
	}
	if ahead {
		s.cancel(errAnew)
		return nil
	}
	return &pb.DownFrame{Body: &pb.DownFrame_Heartbeat{Heartbeat: &pb.HeartbeatAnswer{
		Code: string(a.Code), Reason: string(a.Reason), Detail: a.Detail,
		Version: wire.ToVersion(a.Version), Remaining: durationpb.New(a.Remaining), EffectsTaken: taken(),
	}}}
}

func (s *stream) fetchSet(ctx context.Context, f *pb.FetchSet) *pb.DownFrame {
	if err := s.own(f.GetSession(), f.GetNonce()); err != nil {
		return &pb.DownFrame{Body: fault(err)}
	}
	set, err := s.service.Coordinator.FetchSet(ctx, s.caller(), f.GetSession(), f.GetNonce(), f.GetKnown())
	if err != nil {
		return &pb.DownFrame{Body: fault(err)}
	}
	if set.Refused != lease.NoReason {
		return &pb.DownFrame{Body: &pb.DownFrame_Set{Set: &pb.LeaseSet{
			Session: f.GetSession(), Code: string(lease.Rejected), Reason: string(set.Refused), Detail: set.Detail,
		}}}
	}
	out := &pb.LeaseSet{
		Session: set.Session.ID, Version: wire.ToVersion(set.Version), Remaining: durationpb.New(set.Remaining), Code: string(lease.Done),
	}
	for _, l := range set.Leases {
		out.Leases = append(out.Leases, wire.ToLease(l, set.Now))
	}
	for _, e := range set.Ended {
		ended := &pb.Ended{Lease: wire.ToLease(e.Lease, time.Time{})}
		if n := e.Successor; n != nil && n.Node != "" {
			ended.Successor = wire.ToSummary(&lease.Summary{
				Scope: n.Scope, Lease: n.ID, Holder: n.Holder, Node: n.Node, Epoch: n.Epoch, State: n.State, Since: n.AcquiredAt,
			})
		}
		out.Ended = append(out.Ended, ended)
	}
	for _, l := range set.Owed {
		out.Owed = append(out.Owed, wire.ToLease(l, time.Time{}))
	}
	return &pb.DownFrame{Body: &pb.DownFrame_Set{Set: out}}
}

// overloadPause is what a sidecar is asked to wait when the queues are full; it
// adds up to as much again by itself.
const overloadPause = time.Second

// fault says that a request was not decided.
func fault(err error) *pb.DownFrame_Fault {
	var input *coordinator.InputError
	var wait *durationpb.Duration
	if errors.Is(err, engine.ErrOverloaded) {
		wait = durationpb.New(overloadPause)
	}
	return &pb.DownFrame_Fault{Fault: &pb.Fault{
		RetryAfter:     wait,
		Message:        err.Error(),
		Malformed:      errors.As(err, &input) || errors.Is(err, coordinator.ErrNotFound),
		OutcomeUnknown: errors.Is(err, store.ErrOutcomeUnknown) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled),
	}}
}
