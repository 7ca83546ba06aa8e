package engine

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/authority/storeclock"
	"github.com/forgeyard/concurrency/shared/lease"
)

const (
	maxBeats  = 1024 // of one statement
	slowBeats = 32   // heartbeats at once that wait for a locked row
)

// beatCall is one heartbeat on its way.
type beatCall struct {
	beat   lease.Beat
	answer chan beatAnswer // of capacity 1
}

type beatAnswer struct {
	answer lease.Answer
	err    error
}

// Beat renews a session. An error means that nothing is known to be renewed:
// the next heartbeat tries again. Errors: ErrOverloaded, ErrClosed, ErrCut,
// the store's, or the caller's context error.
func (e *Engine) Beat(ctx context.Context, b lease.Beat) (lease.Answer, error) {
	queued := &beatCall{beat: b, answer: make(chan beatAnswer, 1)}
	if err := enqueue(e, e.beats, queued); err != nil {
		return lease.Answer{}, err
	}
	select {
	case a := <-queued.answer:
		return a.answer, a.err
	case <-ctx.Done():
		return lease.Answer{}, ctx.Err()
	}
}

// beat is the heartbeats' lane.
func (e *Engine) beat() {
	defer e.done.Done()
	var behind []*beatCall
	for {
		var batch []*beatCall
		batch, behind = gather(e.beats, behind, maxBeats, func(c *beatCall) string { return c.beat.Session })
		if batch == nil {
			return
		}
		e.renew(batch, false)
	}
}

// renew runs one statement for the batch and answers what it could renew. With
// wait it is one heartbeat, whose row was locked before.
func (e *Engine) renew(batch []*beatCall, wait bool) {
	beats := make([]lease.Beat, len(batch))
	for i, c := range batch {
		beats[i] = c.beat
	}
	got, err := e.heartbeat(beats, wait)
	if err != nil {
		e.opts.Log.Warn("heartbeats not renewed", zap.Int("count", len(batch)), zap.Error(err))
		for _, c := range batch {
			c.answer <- beatAnswer{err: err}
		}
		return
	}
	for i, c := range batch {
		switch p := got.Pulses[i]; {
		case p.Skipped && wait:
			c.answer <- beatAnswer{err: fmt.Errorf("%w: session row locked", store.ErrConflict)}
		case p.Skipped:
			e.beside(c)
		default:
			c.answer <- beatAnswer{answer: p.Answer}
		}
	}
}

// beside renews one heartbeat whose row was locked without stalling the lane.
func (e *Engine) beside(c *beatCall) {
	e.metrics.skipped.Inc()
	select {
	case e.slow <- struct{}{}:
	default:
		c.answer <- beatAnswer{err: fmt.Errorf("%w: too many locked session rows", ErrOverloaded)}
		return
	}
	e.done.Add(1)
	go func() {
		defer e.done.Done()
		defer func() { <-e.slow }()
		e.renew([]*beatCall{c}, true)
	}()
}

func (e *Engine) heartbeat(beats []lease.Beat, wait bool) (store.Beats, error) {
	ctx, cancel := context.WithTimeout(context.Background(), e.opts.Timeout)
	defer cancel()
	asked := e.opts.Clock.Boot()
	got, err := e.store.Heartbeat(ctx, beats, wait)
	answered := e.opts.Clock.Boot()
	e.metrics.heartbeat.Observe(answered.Sub(asked).Seconds())
	if err != nil {
		return store.Beats{}, err
	}
	if len(got.Pulses) != len(beats) {
		return store.Beats{}, fmt.Errorf("store answered %d of %d heartbeats", len(got.Pulses), len(beats))
	}
	reading := storeclock.Reading{Store: got.Now, Asked: asked, Answered: answered}
	if _, err := e.observe(got.Identity, 0, reading); err != nil {
		// An answer over another history could extend leases that this one lost.
		return store.Beats{}, errors.Join(err, e.recoverFrom(err))
	}
	e.committed()
	return got, nil
}
