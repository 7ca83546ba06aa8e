package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/authority/storeclock"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

var (
	// ErrOverloaded says that a queue is full: nothing was done.
	ErrOverloaded = errors.New("engine: overloaded")
	// ErrClosed says that the engine is stopping: nothing was done.
	ErrClosed = errors.New("engine: closed")
	// ErrCut says that the history of the store may have been cut and the
	// generation is being raised: nothing was done.
	ErrCut = errors.New("engine: history of the store changed")
)

// Options of an Engine. Zero sizes and times take the defaults of withDefaults.
type Options struct {
	Clock       clock.Clock
	Sealer      fold.Sealer
	MaxTTL      time.Duration // the longest ttl of any session
	LockDelay   time.Duration
	Interval    time.Duration // longest time without a commit before a time pause
	Incarnation string        // ULID of this process

	// Policies says what a cut of the history does to a scope.
	Policies func(scope.Scope) lease.Policy

	MaxBatch int           // commands of one transaction
	Queue    int           // commands waiting; beyond: ErrOverloaded
	Attempts int           // per command, the first included
	Backoff  time.Duration // before the second attempt; doubles, jittered
	Timeout  time.Duration // of one transaction; a commit is not cancelled by it

	Live time.Duration // how long an incarnation counts as live after its renewal

	Committed func([]fold.Command, fold.Outcome) // called after each commit, in order; must not block
	Log       *zap.Logger
	Metrics   prometheus.Registerer
}

func (o Options) withDefaults() Options {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	span := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.MaxBatch, 512)
	def(&o.Queue, 8192)
	def(&o.Attempts, 6)
	span(&o.Backoff, 10*time.Millisecond)
	span(&o.Timeout, 5*time.Second)
	span(&o.Live, 10*time.Second)
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	if o.Committed == nil {
		o.Committed = func([]fold.Command, fold.Outcome) {}
	}
	return o
}

// Engine is safe for concurrent use. It works from Start until Close.
type Engine struct {
	store   store.Store
	opts    Options
	metrics *metrics

	commands chan *call
	beats    chan *beatCall
	slow     chan struct{} // permits for heartbeats that wait for a locked row

	history history    // of the store, with the time pause
	raising sync.Mutex // one lane at a time raises the generation

	mu     sync.RWMutex // held for reading while something is put into a queue
	closed bool
	done   sync.WaitGroup

	stopping atomic.Bool // what fails now is not tried again
}

// New makes an engine over s; s stays the caller's to close.
func New(s store.Store, o Options) *Engine {
	o = o.withDefaults()
	e := &Engine{
		store: s, opts: o, metrics: newMetrics(o.Metrics),
		commands: make(chan *call, o.Queue),
		beats:    make(chan *beatCall, o.Queue),
		slow:     make(chan struct{}, slowBeats),
	}
	e.history.watch = storeclock.New(storeclock.Config{LockDelay: o.LockDelay, Interval: o.Interval, MaxTTL: o.MaxTTL})
	return e
}

// Start enlists this process with the store and begins to work.
func (e *Engine) Start(ctx context.Context) error {
	if err := e.enlist(ctx, storeclock.NoCause, 0, 0); err != nil {
		return err
	}
	e.done.Add(2)
	go e.write()
	go e.beat()
	return nil
}

// Close refuses what comes, answers what is queued, and returns when both
// lanes are empty. It is idempotent and tolerates an engine never started.
func (e *Engine) Close() {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		e.stopping.Store(true)
		close(e.commands)
		close(e.beats)
	}
	e.mu.Unlock()
	e.done.Wait()
}

// call is one command on its way.
type call struct {
	ctx     context.Context
	command fold.Command
	answer  chan callAnswer // of capacity 1
}

type callAnswer struct {
	result fold.Result
	err    error
}

// Do runs one command. Errors: ErrOverloaded, ErrClosed, the store's, or the
// caller's context error; after the last two the outcome is known to the
// command id alone.
func (e *Engine) Do(ctx context.Context, c fold.Command) (fold.Result, error) {
	queued := &call{ctx: ctx, command: c, answer: make(chan callAnswer, 1)}
	if err := enqueue(e, e.commands, queued); err != nil {
		return fold.Result{}, err
	}
	select {
	case a := <-queued.answer:
		return a.result, a.err
	case <-ctx.Done():
		return fold.Result{}, ctx.Err()
	}
}

// Queued is how many commands wait for the writer.
func (e *Engine) Queued() int { return len(e.commands) }

func enqueue[T any](e *Engine, queue chan T, item T) error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.closed {
		return ErrClosed
	}
	select {
	case queue <- item:
		return nil
	default:
		e.metrics.overloaded.Inc()
		return ErrOverloaded
	}
}

// facts are complete but for the records: what the rules know of time.
func (e *Engine) facts(l store.Loaded, p lease.Pause) lease.Facts {
	return lease.Facts{
		Now: l.Now, Generation: l.Generation, Pause: p,
		MaxTTL: e.opts.MaxTTL, LockDelay: e.opts.LockDelay, Switchover: l.Switchover,
	}
}
