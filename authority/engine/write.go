package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"time"

	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/authority/storeclock"
)

// write is the one writer of this replica.
func (e *Engine) write() {
	defer e.done.Done()
	var behind []*call
	for {
		var batch []*call
		batch, behind = gather(e.commands, behind, e.opts.MaxBatch, callKey)
		if batch == nil {
			return
		}
		if batch = stillWanted(batch); len(batch) > 0 {
			e.run(batch, 1)
			// Whoever was just answered may have the next command ready: it
			// comes along instead of waiting for a whole commit.
			runtime.Gosched()
		}
	}
}

// callKey keeps two calls with one command id out of one transaction: the
// second one then finds the stored answer.
func callKey(c *call) string {
	if c.command.ID == "" {
		return ""
	}
	return c.command.Principal + "\x00" + c.command.ID
}

func stillWanted(batch []*call) []*call {
	kept := batch[:0]
	for _, c := range batch {
		if c.ctx.Err() == nil {
			kept = append(kept, c)
		}
	}
	return kept
}

// run brings every call of the batch to an answer.
func (e *Engine) run(batch []*call, attempt int) {
	commands := make([]fold.Command, len(batch))
	for i, c := range batch {
		commands[i] = c.command
	}
	began := e.opts.Clock.Boot()
	outcome, err := e.transact(commands)
	if err == nil {
		e.opts.Committed(commands, outcome)
		for i, c := range batch {
			c.answer <- callAnswer{result: outcome.Results[i]}
		}
		return
	}
	e.metrics.retries.WithLabelValues(class(err)).Inc()
	prompt := e.opts.Clock.Boot().Sub(began) < promptFailure
	switch {
	case e.stopping.Load() || !transient(err) || e.recoverFrom(err) != nil:
		e.giveUp(batch, attempt, err)
	case len(batch) > 1 && (errors.Is(err, store.ErrConflict) || (attempt >= e.opts.Attempts && prompt)):
		// A conflict, or something that the database will not take, is one
		// command's or few: the others get through without it.
		half := len(batch) / 2
		e.run(batch[:half], attempt)
		e.run(batch[half:], attempt)
	case attempt >= e.opts.Attempts:
		e.giveUp(batch, attempt, err)
	default:
		if class(err) != classCut { // after a raise there is nothing to wait for
			e.sleep(attempt)
		}
		e.run(batch, attempt+1)
	}
}

// promptFailure is how fast a database that is there says no.
const promptFailure = 100 * time.Millisecond

func (e *Engine) giveUp(batch []*call, attempt int, err error) {
	e.opts.Log.Error("transaction given up", zap.Int("commands", len(batch)), zap.Int("attempts", attempt), zap.Error(err))
	for _, c := range batch {
		c.answer <- callAnswer{err: err}
	}
}

// sleep waits Backoff * 2^(attempt-1), at most a second, with half of it left
// to chance.
func (e *Engine) sleep(attempt int) {
	d := min(e.opts.Backoff<<(attempt-1), time.Second)
	timer := e.opts.Clock.NewTimer(d/2 + rand.N(d/2+1))
	defer timer.Stop()
	<-timer.C()
}

// transact runs one transaction over commands.
func (e *Engine) transact(commands []fold.Command) (fold.Outcome, error) {
	ctx, cancel := context.WithTimeout(context.Background(), e.opts.Timeout)
	defer cancel()
	asked := e.opts.Clock.Boot()
	var outcome fold.Outcome
	err := e.store.Transact(ctx, fold.Needs(commands), func(l store.Loaded) (store.Changes, error) {
		reading := storeclock.Reading{Store: l.Now, Asked: asked, Answered: e.opts.Clock.Boot()}
		pause, err := e.observe(l.Identity, l.Generation, reading)
		if err != nil {
			return store.Changes{}, err
		}
		var changes store.Changes
		changes, outcome, err = e.opts.Sealer.Run(e.facts(l, pause), commands, l)
		return changes, err
	})
	took := e.opts.Clock.Boot().Sub(asked)
	e.metrics.transaction.Observe(took.Seconds())
	if err != nil {
		return fold.Outcome{}, err
	}
	e.metrics.batch.Observe(float64(len(commands)))
	e.committed()
	return outcome, nil
}

func transient(err error) bool {
	var ahead *fold.AheadError
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrConflict) ||
		errors.Is(err, store.ErrOutcomeUnknown) || errors.Is(err, ErrCut) || errors.Is(err, errFell) || errors.As(err, &ahead)
}

const classCut = "history-cut"

// class names an error in metrics.
func class(err error) string {
	var ahead *fold.AheadError
	switch {
	case errors.Is(err, store.ErrConflict):
		return "conflict"
	case errors.Is(err, store.ErrOutcomeUnknown):
		return "outcome-unknown"
	case errors.Is(err, store.ErrUnavailable):
		return "unavailable"
	case errors.Is(err, ErrCut), errors.Is(err, errFell), errors.As(err, &ahead):
		return classCut
	}
	return "other"
}
