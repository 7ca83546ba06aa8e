package uplink

import (
	"context"
	"fmt"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/wire"
	"github.com/forgeyard/concurrency/sidecar/keeper"
)

// ask sends a question once, when there is a connection within ctx; without an
// answer nothing is known.
func (u *Uplink) ask(ctx context.Context, f *pb.UpFrame) (*pb.DownFrame, error) {
	c, err := u.connection(ctx, true)
	if err != nil {
		return nil, err
	}
	down, err := c.ask(ctx, f)
	if err != nil {
		return nil, err
	}
	if f := down.GetFault(); f != nil {
		return nil, faultError(f)
	}
	return down, nil
}

// Confirm implements keeper.Link.
func (u *Uplink) Confirm(ctx context.Context, c keeper.Confirmation) (lease.Answer, error) {
	down, err := u.ask(ctx, &pb.UpFrame{Body: &pb.UpFrame_Confirm{Confirm: &pb.Confirm{
		Session: c.Session, Nonce: c.Nonce, Lease: toRef(c.Lease), Effect: wire.ToEffect(c.Effect, u.cfg.Node),
	}}})
	if err != nil {
		return lease.Answer{}, fmt.Errorf("ask for a confirmation: %w", err)
	}
	if down.GetAnswer() == nil {
		return lease.Answer{}, fmt.Errorf("ask for a confirmation: %w", errOtherAnswer)
	}
	return wire.FromAnswer(down.GetAnswer())
}

// Evidence asks what the former holders of a scope left behind.
func (u *Uplink) Evidence(ctx context.Context, scope string) (keeper.Evidence, error) {
	down, err := u.ask(ctx, &pb.UpFrame{Body: &pb.UpFrame_Evidence{Evidence: &pb.EvidenceQuery{Scope: scope}}})
	if err != nil {
		return keeper.Evidence{}, fmt.Errorf("ask for evidence: %w", err)
	}
	if down.GetEvidence() == nil {
		return keeper.Evidence{}, fmt.Errorf("ask for evidence: %w", errOtherAnswer)
	}
	return fromEvidence(down.GetEvidence())
}

// Blocked asks which scopes of these kinds wait for a reconciler.
func (u *Uplink) Blocked(ctx context.Context, kinds []string) ([]lease.Record, error) {
	down, err := u.ask(ctx, &pb.UpFrame{Body: &pb.UpFrame_Blocked{Blocked: &pb.BlockedQuery{Kinds: kinds}}})
	if err != nil {
		return nil, fmt.Errorf("ask for blocked scopes: %w", err)
	}
	if down.GetBlocked() == nil {
		return nil, fmt.Errorf("ask for blocked scopes: %w", errOtherAnswer)
	}
	var out []lease.Record
	for _, m := range down.GetBlocked().GetScopes() {
		r, err := wire.FromClosed(m)
		if err != nil {
			return nil, fmt.Errorf("ask for blocked scopes: %w", err)
		}
		out = append(out, r)
	}
	return out, nil
}

func fromEvidence(m *pb.Evidence) (keeper.Evidence, error) {
	record, err := wire.FromClosed(m.GetScope())
	if err != nil {
		return keeper.Evidence{}, fmt.Errorf("read evidence: %w", err)
	}
	out := keeper.Evidence{Record: record, Complete: m.GetComplete()}
	if m.GetHolder() != nil {
		l, err := wire.FromLease(m.GetHolder())
		if err != nil {
			return out, fmt.Errorf("read evidence: %w", err)
		}
		out.Holder = &l
	}
	for _, u := range m.GetUnsettled() {
		l, err := wire.FromLease(u)
		if err != nil {
			return out, fmt.Errorf("read evidence: %w", err)
		}
		out.Unsettled = append(out.Unsettled, l)
	}
	for _, r := range m.GetEffects() {
		e, err := wire.FromReported(r)
		if err != nil {
			return out, fmt.Errorf("read evidence: %w", err)
		}
		out.Effects = append(out.Effects, e)
	}
	return out, nil
}
