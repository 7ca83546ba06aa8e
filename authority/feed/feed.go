package feed

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/shared/clock"
)

// Notices carries short texts between the replicas of one store.
type Notices interface {
	// Notify sends each text to every replica that listens.
	Notify(ctx context.Context, texts []string) error
	// Listen calls ready once and heard for each text, until ctx is done or the
	// connection is lost.
	Listen(ctx context.Context, ready func(), heard func(text string)) error
}

// Nudger tells connected nodes.
type Nudger interface {
	// Nudge returns those whose session is not connected to this replica.
	Nudge([]fold.Moved) (elsewhere []fold.Moved)
}

// Config of a Feed.
type Config struct {
	Notices Notices // nil: there is one replica only, as with the embedded store
	Nudger  Nudger
	Clock   clock.Clock
	Log     *zap.Logger
	Metrics prometheus.Registerer
}

const (
	gap          = 20 * time.Millisecond // between two sendings
	sendTimeout  = 2 * time.Second
	mostPending  = 16384 // sessions; beyond: heartbeats tell
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 5 * time.Second
)

// Feed is safe for concurrent use.
type Feed struct {
	cfg     Config
	metrics *metrics

	mu      sync.Mutex
	pending map[string]fold.Moved // by session
	due     chan struct{}         // of capacity 1: something is pending
}

// New makes a feed; Run works.
func New(cfg Config) *Feed {
	return &Feed{cfg: cfg, metrics: newMetrics(cfg.Metrics), pending: map[string]fold.Moved{}, due: make(chan struct{}, 1)}
}

// Moved tells the nodes that are connected here, and other replicas of the
// rest.
func (f *Feed) Moved(moved []fold.Moved) {
	elsewhere := f.cfg.Nudger.Nudge(moved)
	if f.cfg.Notices == nil || len(elsewhere) == 0 {
		return
	}
	f.mu.Lock()
	for _, m := range elsewhere {
		was, known := f.pending[m.Session]
		switch {
		case !known && len(f.pending) >= mostPending:
			f.metrics.dropped.Inc()
		case !known || was.Version.Before(m.Version):
			f.pending[m.Session] = m
		}
	}
	f.mu.Unlock()
	select {
	case f.due <- struct{}{}:
	default:
	}
}

// Run sends and listens until ctx is done.
func (f *Feed) Run(ctx context.Context) {
	if f.cfg.Notices == nil {
		return
	}
	var listening sync.WaitGroup
	listening.Go(func() { f.listen(ctx) })
	defer listening.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.due:
		}
		f.send(ctx)
		f.sleep(ctx, gap)
	}
}

func (f *Feed) send(ctx context.Context) {
	f.mu.Lock()
	moved := f.pending
	f.pending = map[string]fold.Moved{}
	f.mu.Unlock()
	if len(moved) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if err := f.cfg.Notices.Notify(ctx, encode(moved)); err != nil {
		f.metrics.sent.WithLabelValues("failed").Add(float64(len(moved)))
		f.cfg.Log.Info("notice not sent: heartbeats will tell", zap.Int("sessions", len(moved)), zap.Error(err))
		return
	}
	f.metrics.sent.WithLabelValues("sent").Add(float64(len(moved)))
}

func (f *Feed) listen(ctx context.Context) {
	pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(firstBackoff),
		backoff.WithMaxInterval(maxBackoff), backoff.WithMaxElapsedTime(0), backoff.WithRandomizationFactor(0.5))
	for ctx.Err() == nil {
		err := f.cfg.Notices.Listen(ctx, func() {
			pause.Reset()
			f.metrics.listening.Set(1)
		}, f.hear)
		f.metrics.listening.Set(0)
		if ctx.Err() != nil {
			return
		}
		f.metrics.lost.Inc()
		wait := pause.NextBackOff()
		f.cfg.Log.Warn("not listening to other replicas: heartbeats tell meanwhile", zap.Duration("retry_in", wait), zap.Error(err))
		f.sleep(ctx, wait)
	}
}

func (f *Feed) hear(text string) {
	moved, err := decode(text)
	if err != nil {
		f.metrics.heard.WithLabelValues("malformed").Inc()
		f.cfg.Log.Warn("notice not understood", zap.Error(err))
		return
	}
	elsewhere := f.cfg.Nudger.Nudge(moved)
	f.metrics.heard.WithLabelValues("elsewhere").Add(float64(len(elsewhere)))
	f.metrics.heard.WithLabelValues("here").Add(float64(len(moved) - len(elsewhere)))
}

func (f *Feed) sleep(ctx context.Context, d time.Duration) {
	t := f.cfg.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C():
	}
}
