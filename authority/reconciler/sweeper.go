package reconciler

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/shared/clock"
)

// Tidier is what the sweeper calls.
type Tidier interface {
	Sweep(ctx context.Context) error
	Prune(ctx context.Context) error
}

// Config of a Sweeper.
type Config struct {
	Tidier     Tidier
	Clock      clock.Clock
	Every      time.Duration
	PruneEvery time.Duration
	Timeout    time.Duration // of one round
	Log        *zap.Logger
	Metrics    prometheus.Registerer
}

// Sweeper runs rounds on a timer.
type Sweeper struct {
	cfg    Config
	rounds *prometheus.CounterVec
}

// NewSweeper makes a sweeper; Run works.
func NewSweeper(cfg Config) *Sweeper {
	return &Sweeper{cfg: cfg, rounds: promauto.With(cfg.Metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "forgeyard_sweeps_total", Help: "Rounds of the sweeper, by result.",
	}, []string{"result"})}
}

// Run sweeps until ctx is done.
func (s *Sweeper) Run(ctx context.Context) {
	timer := s.cfg.Clock.NewTimer(s.cfg.Every)
	defer timer.Stop()
	pruned := s.cfg.Clock.Boot()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
		}
		s.round(ctx, "sweep", s.cfg.Tidier.Sweep)
		if at := s.cfg.Clock.Boot(); at.Sub(pruned) >= s.cfg.PruneEvery {
			pruned = at
			s.round(ctx, "prune", s.cfg.Tidier.Prune)
		}
		timer.Reset(s.cfg.Every)
	}
}

func (s *Sweeper) round(ctx context.Context, what string, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if err := do(ctx); err != nil {
		s.rounds.WithLabelValues(what + "-failed").Inc()
		s.cfg.Log.Warn(what, zap.Error(err))
		return
	}
	s.rounds.WithLabelValues(what).Inc()
}
