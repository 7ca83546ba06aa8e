package sidecartest

import (
	"context"
	"slices"

	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/sidecar/keeper"
	"github.com/forgeyard/concurrency/sidecar/localapi"
)

var _ localapi.Authority = (*Authority)(nil)

// Block makes a scope wait for a reconciler, with these effects as evidence.
func (a *Authority) Block(s scope.Scope, why string, left ...lease.Evidence) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.blocked[s.String()] = &keeper.Evidence{
		Record: lease.Record{Scope: s, Epoch: a.epoch, State: lease.Blocked, Reason: why}, Effects: left,
	}
}

// Evidence implements localapi.Authority.
func (a *Authority) Evidence(_ context.Context, name string) (keeper.Evidence, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silent {
		return keeper.Evidence{}, keeper.ErrUnreachable
	}
	if e := a.blocked[name]; e != nil {
		return *e, nil
	}
	s, err := scope.Parse(name)
	return keeper.Evidence{Record: lease.Record{Scope: s, State: lease.Open}, Complete: true}, err
}

// Blocked implements localapi.Authority.
func (a *Authority) Blocked(_ context.Context, kinds []string) ([]lease.Record, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silent {
		return nil, keeper.ErrUnreachable
	}
	var out []lease.Record
	for _, e := range a.blocked {
		if slices.Contains(kinds, string(e.Record.Scope.Kind())) {
			out = append(out, e.Record)
		}
	}
	return out, nil
}

// resolveLocked takes a finding as it is, and opens the scope when it says so.
func (a *Authority) resolveLocked(r *keeper.ResolveCommand) lease.Answer {
	e := a.blocked[r.Scope.String()]
	if e == nil {
		return lease.Answer{Code: lease.AlreadyEnded, Detail: "the scope is open already"}
	}
	e.Effects = slices.DeleteFunc(e.Effects, func(left lease.Evidence) bool {
		return slices.ContainsFunc(r.Resolutions, func(said lease.Resolution) bool { return said.Effect == left.Effect.ID })
	})
	switch {
	case r.Reopen && len(e.Effects) > 0:
		return lease.Answer{Code: lease.Rejected, Reason: lease.Unresolved, Detail: "effects are not resolved"}
	case r.Reopen:
		delete(a.blocked, r.Scope.String())
		return lease.Answer{Code: lease.Done, Detail: "the scope is open"}
	}
	return lease.Answer{Code: lease.Done}
}
