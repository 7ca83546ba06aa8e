package reconciler_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/authority/reconciler"
	"github.com/forgeyard/concurrency/shared/clock/clocktest"
)

// tidier tells each call and answers as it is told.
type tidier struct {
	sweeps, prunes chan struct{}
	answer         chan error
}

func (t tidier) Sweep(context.Context) error {
	t.sweeps <- struct{}{}
	return <-t.answer
}

func (t tidier) Prune(context.Context) error {
	t.prunes <- struct{}{}
	return nil
}

func TestSweeperGoesOnAfterAnError(t *testing.T) {
	t.Parallel()
	clk := clocktest.New(time.Now())
	reg := prometheus.NewRegistry()
	does := tidier{sweeps: make(chan struct{}), prunes: make(chan struct{}), answer: make(chan error, 1)}
	s := reconciler.NewSweeper(reconciler.Config{
		Tidier: does, Clock: clk, Every: time.Second, PruneEvery: 3 * time.Second, Timeout: time.Minute, Log: zap.NewNop(), Metrics: reg,
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		s.Run(ctx)
		close(done)
	}()
	for i := range 3 {
		clk.WaitForTimers(1)
		clk.Advance(time.Second)
		<-does.sweeps
		if i == 0 {
			does.answer <- errors.New("the store is away")
			continue
		}
		does.answer <- nil
	}
	<-does.prunes
	clk.WaitForTimers(1)
	cancel()
	<-done
	families, err := reg.Gather()
	require.NoError(t, err)
	require.Len(t, families[0].GetMetric(), 3, "sweep, sweep-failed and prune")
}
