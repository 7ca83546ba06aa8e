package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/authority/storeclock"
	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
)

// history is what this replica knows of the store's own history: which
// database it is, the generation in force, and whether its clock may decide.
type history struct {
	mu         sync.Mutex
	identity   store.Identity
	generation epoch.Generation // the highest seen
	confirmed  epoch.Generation // in force when this process's row was last there
	renewed    boottime.Instant // when this process's row was last known to be there
	watch      storeclock.Watch
}

// History is a snapshot for people.
type History struct {
	Identity   store.Identity
	Generation epoch.Generation
	Pause      time.Duration // what is left of the time pause for the longest session; 0: none
	Silent     time.Duration // since the store acknowledged a write
}

// History tells what the engine knows of the store's history.
func (e *Engine) History() History {
	h := &e.history
	h.mu.Lock()
	defer h.mu.Unlock()
	at := e.opts.Clock.Boot()
	return History{Identity: h.identity, Generation: h.generation, Pause: h.watch.Remaining(at), Silent: h.watch.Silent(at)}
}

// StoreNow estimates the store's clock, for people: nothing is decided by it.
func (e *Engine) StoreNow() time.Time {
	e.history.mu.Lock()
	defer e.history.mu.Unlock()
	return e.history.watch.Now(e.opts.Clock.Boot())
}

// errFell says that a transaction read a lower generation than one seen
// before. Without scope locks it may just have looked before a raise that was
// seen since, so the incarnation row is asked before that counts as a cut.
var errFell = errors.New("engine: generation fell")

// cutError is ErrCut with the generation that was in force when it was seen.
type cutError struct {
	used    epoch.Generation
	another bool // the store has another identity: it decides what that means
	detail  string
}

func (e *cutError) Error() string        { return ErrCut.Error() + ": " + e.detail }
func (e *cutError) Is(target error) bool { return target == ErrCut }

// observe takes in a reading of the store. It fails with ErrCut when the
// identity is not the one that this process enlisted with, with errFell when
// the generation is lower than one seen before.
func (e *Engine) observe(id store.Identity, g epoch.Generation, r storeclock.Reading) (lease.Pause, error) {
	h := &e.history
	h.mu.Lock()
	defer h.mu.Unlock()
	if id != h.identity {
		return lease.Pause{}, &cutError{used: h.generation, another: true, detail: fmt.Sprintf("identity %+v, enlisted with %+v", id, h.identity)}
	}
	if g != 0 && g < h.generation {
		return lease.Pause{}, fmt.Errorf("%w: from %d to %d", errFell, h.generation, g)
	}
	if g > h.generation {
		// While this process lives only a cut raises it: another replica saw one.
		return lease.Pause{}, &cutError{used: h.generation, detail: fmt.Sprintf("generation rose from %d to %d", h.generation, g)}
	}
	h.generation = max(h.generation, g)
	var cause storeclock.Cause
	h.watch, cause = h.watch.Observe(r)
	e.noteLocked(cause)
	return h.watch.Pause(r.Answered), nil
}

func (e *Engine) noteLocked(cause storeclock.Cause) {
	at := e.opts.Clock.Boot()
	e.metrics.pause.Set(e.history.watch.Remaining(at).Seconds())
	e.metrics.parting.Set(e.history.watch.Parting().Seconds())
	e.metrics.generation.Set(float64(e.history.generation))
	if cause == storeclock.NoCause {
		return
	}
	e.metrics.pauses.WithLabelValues(string(cause)).Inc()
	e.opts.Log.Warn("time pause", zap.String("cause", string(cause)), zap.Duration("longest", e.history.watch.Remaining(at)))
}

// committed notes that the store acknowledged a write.
func (e *Engine) committed() {
	e.history.mu.Lock()
	defer e.history.mu.Unlock()
	e.history.watch = e.history.watch.Committed(e.opts.Clock.Boot())
}

// recoverFrom does what must be done before the failed transaction is
// repeated: nothing, or the raise of the generation after a cut.
func (e *Engine) recoverFrom(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), e.opts.Timeout)
	defer cancel()
	var ahead *fold.AheadError
	var cut *cutError
	switch {
	case errors.As(err, &ahead):
		return e.raise(ctx, err, ahead.Stored, ahead.Witness)
	case errors.As(err, &cut) && cut.another:
		return e.raise(ctx, err, cut.used, 0)
	case errors.As(err, &cut):
		return e.raise(ctx, err, cut.used, cut.used)
	case errors.Is(err, errFell):
		return e.Renew(ctx)
	}
	return nil
}

// raise puts the generation above everything that this process has used and
// above witness, and begins a whole pause; unless the other lane has done so
// since the generation was used.
func (e *Engine) raise(ctx context.Context, why error, used, witness epoch.Generation) error {
	e.raising.Lock()
	defer e.raising.Unlock()
	e.history.mu.Lock()
	done := e.history.confirmed > used
	e.history.mu.Unlock()
	if done {
		return nil
	}
	e.opts.Log.Error("history of the store may have been cut: raising the generation", zap.Error(why))
	e.metrics.cuts.Inc()
	// The store compares: another replica may have raised it since.
	return e.enlist(ctx, storeclock.Cut, witness, used)
}

// Recover treats the history as cut because a person says so. It stands in for
// Start in a process that does nothing else.
func (e *Engine) Recover(ctx context.Context, reason string) (store.Standing, error) {
	st, err := e.store.Enlist(ctx, store.Incarnation{ID: e.opts.Incarnation, Live: e.opts.Live, Recover: reason, Forget: e.forget})
	if err != nil {
		return store.Standing{}, fmt.Errorf("recover: %w", err)
	}
	return st, nil
}

// forget is what a cut does to everything; stores call it in their transaction.
func (e *Engine) forget(l store.Loaded, why string) (store.Changes, error) {
	changes, err := fold.Forget(e.facts(l, lease.Pause{Whole: true}), l, e.opts.Policies, why)
	if err == nil {
		e.opts.Log.Error("history of the store was cut: leases drain, reconciling scopes close",
			zap.String("why", why), zap.Int("leases", len(changes.Leases)), zap.Int("scopes", len(changes.Scopes)))
	}
	return changes, err
}

func (e *Engine) enlist(ctx context.Context, cause storeclock.Cause, witness, used epoch.Generation) error {
	asked := e.opts.Clock.Boot()
	st, err := e.store.Enlist(ctx, store.Incarnation{ID: e.opts.Incarnation, Witness: witness, Used: used, Live: e.opts.Live, Forget: e.forget})
	if err != nil {
		return fmt.Errorf("enlist with the store: %w", err)
	}
	e.adopt(st, asked, cause)
	return nil
}

// adopt takes over a standing. After a cut everything pauses.
func (e *Engine) adopt(st store.Standing, asked boottime.Instant, cause storeclock.Cause) {
	h := &e.history
	h.mu.Lock()
	defer h.mu.Unlock()
	at := e.opts.Clock.Boot()
	h.identity, h.generation, h.confirmed = st.Identity, max(h.generation, st.Generation), st.Generation
	h.renewed = asked
	var seen storeclock.Cause
	h.watch, seen = h.watch.Observe(storeclock.Reading{Store: st.Now, Asked: asked, Answered: at})
	h.watch = h.watch.Committed(at)
	if cause == storeclock.Cut || st.Cut {
		h.watch, seen = h.watch.HistoryCut(at), storeclock.Cut
	}
	e.noteLocked(seen)
	e.opts.Log.Info("enlisted", zap.Uint32("generation", uint32(h.generation)), zap.Bool("raised", st.Raised), zap.Bool("cut", st.Cut),
		zap.String("system", st.Identity.System), zap.String("timeline", st.Identity.Timeline))
}

// Renew keeps this process's incarnation row alive; one sweep calls it. A row
// that is missing, or another identity, is a cut of the history.
func (e *Engine) Renew(ctx context.Context) error {
	h := &e.history
	h.mu.Lock()
	known, seen, confirmed, renewed := h.identity, h.generation, h.confirmed, h.renewed
	h.mu.Unlock()
	asked := e.opts.Clock.Boot()
	st, err := e.store.Renew(ctx, store.Incarnation{ID: e.opts.Incarnation, Live: e.opts.Live})
	if err != nil {
		return fmt.Errorf("renew incarnation: %w", err)
	}
	cut := func(used, witness epoch.Generation, detail string) error {
		return e.raise(ctx, &cutError{used: used, detail: detail}, used, witness)
	}
	switch {
	case st.Generation < seen:
		return cut(seen, seen, fmt.Sprintf("generation fell from %d to %d", seen, st.Generation))
	case st.Identity != known:
		return cut(confirmed, 0, fmt.Sprintf("identity %+v, enlisted with %+v", st.Identity, known))
	case st.Missing && st.Generation == confirmed && asked.Sub(renewed) >= store.IncarnationKept:
		return e.enlist(ctx, storeclock.NoCause, 0, 0) // tidied away while this process was stalled
	case st.Missing: // put back from before this process, or raised by another replica
		return cut(confirmed, confirmed, "incarnation row missing")
	}
	_, err = e.observe(st.Identity, st.Generation, storeclock.Reading{Store: st.Now, Asked: asked, Answered: e.opts.Clock.Boot()})
	if err != nil {
		return e.recoverFrom(err)
	}
	h.mu.Lock()
	h.confirmed, h.renewed = max(h.confirmed, st.Generation), asked
	h.mu.Unlock()
	e.committed()
	return nil
}
