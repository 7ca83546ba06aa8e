package authority

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/authority/engine"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
)

// Recovery is what Recover did.
type Recovery struct {
	Generation epoch.Generation
	Draining   int // leases that end early now
	Closed     int // scopes that somebody must look at
}

// Recover treats the history of the store as cut because a person says so
// (DESIGN 5.8): the generation rises, every lease drains, reconciling scopes
// close. Replicas that run notice it and pause. On the embedded store no
// authority may run.
func Recover(ctx context.Context, cfg Config, reason string, log *zap.Logger) (Recovery, error) {
	if err := cfg.Validate(); err != nil {
		return Recovery{}, err
	}
	s, err := openStore(ctx, cfg, clock.System())
	if err != nil {
		return Recovery{}, fmt.Errorf("open store: %w", err)
	}
	defer s.Close()
	policies := bounded{cfg.Policy, cfg.Timing}
	e := engine.New(s, engine.Options{
		Clock: clock.System(), MaxTTL: cfg.Timing.MaxTTL, LockDelay: cfg.Timing.LockDelay, Interval: cfg.Timing.Interval,
		Incarnation: ulid.Make().String(), Live: 10 * cfg.Timing.Sweep, Policies: policies.of, Log: log,
	})
	st, err := e.Recover(ctx, reason)
	if err != nil {
		return Recovery{}, err
	}
	r := Recovery{Generation: st.Generation}
	leases, err := s.Leases(ctx, store.LeaseFilter{})
	if err != nil {
		return r, fmt.Errorf("count leases: %w", err)
	}
	for _, l := range leases {
		if l.State == lease.Draining {
			r.Draining++
		}
	}
	closed, err := s.Closed(ctx, maxCounted)
	r.Closed = len(closed)
	return r, err
}

// maxCounted bounds what is counted for a person.
const maxCounted = 1_000_000

// PrepareSwitchover stops grants for ten minutes and leaves a nonce in the
// database, so that a promotion within that time keeps the leases; cancel
// takes it back. store.ErrUnsupported on the embedded store.
func PrepareSwitchover(ctx context.Context, cfg Config, cancel bool) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	s, err := openStore(ctx, cfg, clock.System())
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	defer s.Close()
	nonce := ""
	if !cancel {
		nonce = rand.Text()
	}
	return s.PrepareSwitchover(ctx, nonce)
}
