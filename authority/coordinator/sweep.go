package coordinator

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/shared/scope"
)

// sweepLimit bounds the scopes of one sweep; the next one takes the rest.
const sweepLimit = 4096

// sweepParallel is how many of them wait for the engine at once.
const sweepParallel = 256

// Sweep ends what is over although nobody asked for it, and keeps this
// process's incarnation alive. It decides nothing that the rules would not
// decide for anybody who asks (FC-08).
func (c *Coordinator) Sweep(ctx context.Context) error {
	if err := c.cfg.Engine.Renew(ctx); err != nil {
		return err
	}
	due, err := c.cfg.Store.Due(ctx, c.cfg.SweepGrace, sweepLimit)
	if err != nil {
		return fmt.Errorf("list due scopes: %w", err)
	}
	c.settleAll(ctx, due)
	return errors.Join(c.dropRefused(ctx), c.watchClosed(ctx))
}

// settleAll leaves room in the engine's queue for everybody else.
func (c *Coordinator) settleAll(ctx context.Context, due []scope.Scope) {
	var group errgroup.Group
	group.SetLimit(sweepParallel)
	for _, s := range due {
		group.Go(func() error {
			c.settle(ctx, s)
			return nil
		})
	}
	_ = group.Wait() // settle logs
}

func (c *Coordinator) settle(ctx context.Context, s scope.Scope) {
	p, _ := c.cfg.Policies.For(s)
	if _, err := c.cfg.Engine.Do(ctx, fold.Command{Action: fold.Settle(s, p)}); err != nil {
		c.cfg.Log.Warn("settle", zap.Stringer("scope", s), zap.Error(err))
	}
}

// Prune deletes rows that were kept long enough, a bounded number at a time.
func (c *Coordinator) Prune(ctx context.Context) error {
	if err := c.cfg.Store.Prune(ctx, c.cfg.Retention, sweepLimit); err != nil {
		return fmt.Errorf("prune: %w", err)
	}
	return nil
}
