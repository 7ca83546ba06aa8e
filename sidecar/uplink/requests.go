package uplink

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/oklog/ulid/v2"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/wire"
	"github.com/forgeyard/concurrency/sidecar/keeper"
)

// The versions of the protocol that this sidecar speaks.
const (
	protocolMin = 1
	protocolMax = 1
)

// registerTimeout bounds one registration, the durable write on this side
// included.
const registerTimeout = 10 * time.Second

// registerIn bounds one registration of a sidecar that has patience: the next
// replica must still be reached in time.
func (u *Uplink) registerIn() time.Duration {
	if u.cfg.Patience <= 0 {
		return registerTimeout
	}
	return min(max(u.stretched(u.cfg.Patience*3/2), time.Second), registerTimeout)
}

// register opens or resumes the session on a fresh stream. A replica that does
// not come to an answer in time is given up for the next one.
func (u *Uplink) register(ctx context.Context, c *conn) error {
	ctx, cancel := context.WithTimeout(ctx, u.registerIn())
	defer cancel()
	r, err := u.cfg.Registrar.Registration()
	if err != nil {
		return err
	}
	msg := &pb.Register{
		ProtocolMin: protocolMin, ProtocolMax: protocolMax, Nonce: r.Nonce, BootId: r.BootID,
		LockDevice: r.LockFile.Device, LockInode: r.LockFile.Inode, Ttl: durationpb.New(r.TTL),
		ResumeSession: r.Resume, ResumeNonce: r.ResumeNonce, Software: u.cfg.Software,
		CommandId: ulid.MustNew(ulid.Timestamp(u.cfg.Clock.Now()), rand.Reader).String(),
	}
	for _, have := range r.Receipts {
		msg.Receipts = append(msg.Receipts, &pb.Receipt{Scope: have.Scope, Epoch: uint64(have.Epoch), Seal: have.Seal})
	}
	sentAt := u.cfg.Clock.Boot()
	down, err := c.ask(ctx, &pb.UpFrame{Body: &pb.UpFrame_Register{Register: msg}})
	if err != nil {
		return errors.Join(fmt.Errorf("register: %w", err), c.cause())
	}
	if f := down.GetFault(); f != nil {
		return fmt.Errorf("register: %w", faultError(f))
	}
	a := down.GetRegistered()
	if a == nil {
		return fmt.Errorf("register: %w", errOtherAnswer)
	}
	code := lease.Code(a.GetCode())
	if code != lease.Registered && code != lease.Resumed {
		return &waitError{lease.Answer{
			Code: code, Reason: lease.Reason(a.GetReason()), Detail: a.GetDetail(), RetryAfter: a.GetRetryAfter().AsDuration(),
		}}
	}
	if a.GetRenewCertificate() {
		u.cfg.Credential.RenewSoon()
	}
	u.join()
	return u.cfg.Registrar.Registered(ctx, keeper.Registered{
		Session: a.GetSession(), Resumed: code == lease.Resumed, AuthorityID: a.GetAuthorityId(),
		LockDelay: a.GetLockDelay().AsDuration(), SentAt: sentAt,
	})
}

// Heartbeat implements keeper.Link.
func (u *Uplink) Heartbeat(ctx context.Context, b keeper.Beat) (keeper.BeatAnswer, error) {
	c, err := u.connection(ctx, false)
	if err != nil {
		return keeper.BeatAnswer{}, err
	}
	answered := u.impatient(c)
	down, err := c.ask(ctx, &pb.UpFrame{Body: &pb.UpFrame_Heartbeat{Heartbeat: &pb.Heartbeat{
		Session: b.Session, Nonce: b.Nonce, Applied: wire.ToVersion(b.Applied), Effects: wire.ToEffects(b.Effects, u.cfg.Node),
	}}})
	answered(down.GetHeartbeat() != nil)
	if err != nil {
		return keeper.BeatAnswer{}, fmt.Errorf("send heartbeat: %w", err)
	}
	h := down.GetHeartbeat()
	u.judge(c, h != nil)
	if f := down.GetFault(); f != nil {
		return keeper.BeatAnswer{}, fmt.Errorf("send heartbeat: %w", faultError(f))
	}
	if h == nil {
		return keeper.BeatAnswer{}, fmt.Errorf("send heartbeat: %w", errOtherAnswer)
	}
	return keeper.BeatAnswer{Taken: h.GetEffectsTaken(), Answer: lease.Answer{
		Code: lease.Code(h.GetCode()), Reason: lease.Reason(h.GetReason()), Detail: h.GetDetail(),
		Version: wire.FromVersion(h.GetVersion()), Remaining: h.GetRemaining().AsDuration(),
	}}, nil
}

// FetchSet implements keeper.Link.
func (u *Uplink) FetchSet(ctx context.Context, session, nonce string, known []string) (keeper.Set, error) {
	c, err := u.connection(ctx, false)
	if err != nil {
		return keeper.Set{}, err
	}
	down, err := c.ask(ctx, &pb.UpFrame{Body: &pb.UpFrame_FetchSet{FetchSet: &pb.FetchSet{Session: session, Nonce: nonce, Known: known}}})
	if err != nil {
		return keeper.Set{}, fmt.Errorf("fetch set: %w", err)
	}
	if f := down.GetFault(); f != nil {
		return keeper.Set{}, fmt.Errorf("fetch set: %w", faultError(f))
	}
	return fromSet(down.GetSet())
}

// fromSet takes nothing for an empty set but a set: an empty one ends every
// hold.
func fromSet(m *pb.LeaseSet) (keeper.Set, error) {
	set := keeper.Set{Version: wire.FromVersion(m.GetVersion()), Remaining: m.GetRemaining().AsDuration()}
	if lease.Code(m.GetCode()) == lease.Rejected {
		set.Refused, set.Detail = lease.Reason(m.GetReason()), m.GetDetail()
		return set, nil
	}
	if lease.Code(m.GetCode()) != lease.Done {
		return set, fmt.Errorf("fetch set: %w", errOtherAnswer)
	}
	for _, l := range m.GetLeases() {
		parsed, err := wire.FromLease(l)
		if err != nil {
			return set, fmt.Errorf("fetch set: %w", err)
		}
		own := time.Duration(-1)
		if l.GetMaxRemaining() != nil {
			own = l.GetMaxRemaining().AsDuration()
		}
		set.Leases = append(set.Leases, keeper.SetLease{Lease: parsed, OwnRemaining: own})
	}
	for _, e := range m.GetEnded() {
		parsed, err := wire.FromLease(e.GetLease())
		if err != nil {
			return set, fmt.Errorf("fetch set: %w", err)
		}
		successor, err := wire.FromSummary(e.GetSuccessor())
		if err != nil {
			return set, fmt.Errorf("fetch set: %w", err)
		}
		set.Ended = append(set.Ended, keeper.Ended{Lease: parsed, Successor: successor})
	}
	for _, l := range m.GetOwed() {
		parsed, err := wire.FromLease(l)
		if err != nil {
			return set, fmt.Errorf("fetch set: %w", err)
		}
		set.Owed = append(set.Owed, parsed)
	}
	return set, nil
}

// Do implements keeper.Link: it sends the command on every new stream, and
// after every fault, until it is decided.
func (u *Uplink) Do(ctx context.Context, cmd keeper.Command) (lease.Answer, error) {
	pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(firstPause), backoff.WithMaxInterval(u.cfg.MaxPause), backoff.WithMaxElapsedTime(0))
	for {
		c, err := u.connection(ctx, true)
		if err != nil {
			return lease.Answer{}, err
		}
		down, err := c.ask(ctx, &pb.UpFrame{Body: &pb.UpFrame_Command{Command: u.toCommand(cmd)}})
		if err == nil && down.GetAnswer() != nil {
			return wire.FromAnswer(down.GetAnswer())
		}
		if err == nil {
			err = undecided(down)
		}
		var malformed *keeper.MalformedError
		if errors.As(err, &malformed) || ctx.Err() != nil {
			return lease.Answer{}, err
		}
		u.pause(ctx, afterOverload(err, pause.NextBackOff()))
	}
}
