package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/effect"
)

const (
	bucketEffects = "effects"
	fillPercent   = 0.9 // keys are appended in order
)

// ErrFailed says that a commit went wrong before: nothing is begun any more.
var ErrFailed = errors.New("journal: a commit failed; no effect is admitted")

// ErrClosed says that the journal was closed.
var ErrClosed = errors.New("journal: closed")

// Config is what a Journal needs.
type Config struct {
	Path       string
	Clock      clock.Clock
	Log        *zap.Logger
	FlushEvery time.Duration // of outcomes when nothing else is written; default 200 ms
	Keep       int           // outcomes; default 100,000
	Refusals   int           // of refused attempts; default 2,000
	KeepFor    time.Duration // of both; default 24 h
	// Commit is wrapped around every commit: a place for faults in tests. Nil
	// commits.
	Commit func(commit func() error) error
}

// Journal is the open file. It is safe for concurrent use.
type Journal struct {
	cfg Config
	db  *bbolt.DB
	id  string

	before bool // the id was given to a file of an older version

	mu      sync.Mutex
	index   index
	pending []write // waits for the next commit
	wake    chan struct{}
	failed  chan struct{}
	err     error
	closing bool
	stop    chan struct{}
	done    chan struct{}
	damage  Damage
}

// write is one record on its way to the disk; done is nil for what rides along.
// One without an effect only waits for what came before it.
type write struct {
	effect effect.Effect
	done   chan error
}

// Damage says what Open had to set aside.
type Damage struct {
	SetAside string
	Cause    error
}

// Open opens or creates the journal. A damaged file is set aside: then what it
// knew of open effects is lost, and Damage says so. A file that another process
// has, or that the system does not let us read, is left alone.
func Open(cfg Config) (*Journal, error) {
	orDefault(&cfg.FlushEvery, 200*time.Millisecond)
	orDefault(&cfg.KeepFor, 24*time.Hour)
	if cfg.Keep == 0 {
		cfg.Keep = 100_000
	}
	if cfg.Refusals == 0 {
		cfg.Refusals = 2_000
	}
	if cfg.Commit == nil {
		cfg.Commit = func(commit func() error) error { return commit() }
	}
	j := &Journal{
		cfg: cfg, wake: make(chan struct{}, 1), failed: make(chan struct{}),
		stop: make(chan struct{}), done: make(chan struct{}), index: newIndex(),
	}
	if err := j.open(); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	if err := j.recover(); err != nil {
		j.db.Close()
		return nil, fmt.Errorf("open journal: %w", err)
	}
	go j.run()
	return j, nil
}

func orDefault(d *time.Duration, v time.Duration) {
	if *d == 0 {
		*d = v
	}
}

// Damage says what Open set aside; zero when nothing.
func (j *Journal) Damage() Damage { return j.damage }

func (j *Journal) open() error {
	db, k, err := readFile(j.cfg.Path, j.mint)
	if err != nil {
		if !damaged(err) {
			return err
		}
		j.damage = Damage{SetAside: fmt.Sprintf("%s.damaged-%d", j.cfg.Path, j.cfg.Clock.Now().UnixNano()), Cause: err}
		if err := os.Rename(j.cfg.Path, j.damage.SetAside); err != nil {
			return fmt.Errorf("set aside damaged file: %w", errors.Join(err, j.damage.Cause))
		}
		if db, k, err = readFile(j.cfg.Path, j.mint); err != nil {
			return err
		}
	}
	j.db, j.id, j.before = db, k.id, k.before
	for _, e := range k.effects {
		j.index.put(e)
	}
	return nil
}

// recover makes Unknown of what was Started when the former process ended.
func (j *Journal) recover() error {
	var writes []write
	for _, e := range j.index.open() {
		e.State, e.Reason, e.SettledAt = effect.Unknown, "restarted", j.cfg.Clock.Now()
		j.index.put(e)
		writes = append(writes, write{effect: e})
	}
	if len(writes) == 0 {
		return nil
	}
	return j.commit(writes)
}

// Begin makes the intent durable. It fails with ErrFailed, ErrClosed, or ctx's
// error; in the last case the intent may still become durable, and Settle must
// be called for it.
func (j *Journal) Begin(ctx context.Context, e effect.Effect) error {
	e.State = effect.Started
	done := make(chan error, 1)
	if err := j.enqueue(write{effect: e, done: done}); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Settle records an outcome. It rides along with the next commit.
func (j *Journal) Settle(id string, state effect.State, reason string, status int) {
	j.mu.Lock()
	e, ok := j.index.byID[id]
	j.mu.Unlock()
	if !ok {
		return
	}
	e.State, e.Reason, e.Status, e.SettledAt = state, reason, status, j.cfg.Clock.Now()
	_ = j.enqueue(write{effect: e}) // after a failed commit the effect is Unknown at the next start
}

// Refuse records an attempt that was not let out. It rides along.
func (j *Journal) Refuse(e effect.Effect, code string) {
	now := j.cfg.Clock.Now()
	e.State, e.Reason, e.StartedAt, e.SettledAt, e.Refused = effect.Failed, code, now, now, true
	_ = j.enqueue(write{effect: e})
}

// enqueue updates what readers see and hands the record to the writer.
func (j *Journal) enqueue(w write) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closing {
		return ErrClosed
	}
	if j.err != nil {
		if w.done == nil {
			j.index.put(w.effect) // readers may know; the disk will say Unknown
		}
		return j.err
	}
	j.index.put(w.effect)
	j.pending = append(j.pending, w)
	if w.done != nil || len(j.pending) > 1000 {
		j.poke()
	}
	return nil
}

func (j *Journal) poke() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// run is the one writer.
func (j *Journal) run() {
	defer close(j.done)
	tick := j.cfg.Clock.NewTimer(j.cfg.FlushEvery)
	defer tick.Stop()
	for {
		select {
		case <-j.wake:
		case <-tick.C():
			tick.Reset(j.cfg.FlushEvery)
		case <-j.stop:
			j.writePending()
			return
		}
		j.writePending()
	}
}

func (j *Journal) writePending() {
	j.mu.Lock()
	batch := j.pending
	j.pending = nil
	err := j.err
	j.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	if err == nil {
		err = j.commit(batch)
	}
	if err != nil {
		j.fail(err)
		err = fmt.Errorf("%w: %w", ErrFailed, err)
	}
	for _, w := range batch {
		if w.done != nil {
			w.done <- err
		}
	}
}

// commit writes one group, the last state of each effect, and drops what is
// kept no longer.
func (j *Journal) commit(batch []write) error {
	j.mu.Lock()
	drop := j.index.surplus(j.cfg.Keep, j.cfg.Refusals, j.cfg.Clock.Now().Add(-j.cfg.KeepFor))
	j.mu.Unlock()
	return j.cfg.Commit(func() error {
		return j.db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte(bucketEffects))
			b.FillPercent = fillPercent
			for _, w := range batch {
				if w.effect.ID == "" {
					continue
				}
				text, err := json.Marshal(w.effect)
				if err != nil {
					return fmt.Errorf("encode effect: %w", err)
				}
				if err := b.Put([]byte(w.effect.ID), text); err != nil {
					return err
				}
			}
			for _, id := range drop {
				if err := b.Delete([]byte(id)); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func (j *Journal) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.err = fmt.Errorf("%w: %w", ErrFailed, err)
		close(j.failed)
		j.cfg.Log.Error("journal commit", zap.Error(err))
	}
}

// Failed is closed after the first error of a commit.
func (j *Journal) Failed() <-chan struct{} { return j.failed }

// Err is why nothing is begun any more, or nil.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Flush makes every outcome durable that was recorded before.
func (j *Journal) Flush(ctx context.Context) error {
	done := make(chan error, 1)
	j.mu.Lock()
	if err := j.err; err != nil || j.closing {
		j.mu.Unlock()
		return cmp.Or(err, ErrClosed)
	}
	j.pending = append(j.pending, write{done: done})
	j.mu.Unlock()
	j.poke()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close flushes and closes the file. It may be called more than once.
func (j *Journal) Close() error {
	j.mu.Lock()
	again := j.closing
	j.closing = true
	j.mu.Unlock()
	if again {
		return nil
	}
	close(j.stop)
	<-j.done
	return j.db.Close()
}
