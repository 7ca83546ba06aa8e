package uplink

import (
	"errors"
	"math/rand/v2"
	"time"
)

var (
	// errSilent leaves a replica that is connected and answers nothing: it was
	// stopped, or its store does not answer it.
	errSilent = errors.New("a heartbeat was not answered in time")
	// errUnserved leaves a replica that answers, but renews nothing.
	errUnserved = errors.New("no heartbeat was renewed for too long")
)

// impatient leaves the replica unless answered is called in time.
func (u *Uplink) impatient(c *conn) (answered func()) {
	if u.cfg.Patience <= 0 {
		return func() {}
	}
	timer := u.cfg.Clock.NewTimer(u.cfg.Patience)
	done := make(chan struct{})
	go func() {
		defer timer.Stop()
		select {
		case <-timer.C():
			c.end(errSilent)
		case <-done:
		case <-c.done:
		}
	}()
	return func() { close(done) }
}

// judge leaves a replica that has renewed nothing for too long, when there is
// another one to try.
func (u *Uplink) judge(c *conn, served bool) {
	now := u.cfg.Clock.Boot()
	c.mu.Lock()
	if served {
		c.served = now
	}
	silent := now.Sub(c.served)
	c.mu.Unlock()
	if u.cfg.Patience > 0 && len(u.cfg.Addresses) > 1 && silent >= u.cfg.Patience {
		c.end(errUnserved)
	}
}

// overloadError is a replica's word that it has too much to do.
type overloadError struct {
	cause      error
	retryAfter time.Duration
}

// Error implements error.
func (e *overloadError) Error() string { return e.cause.Error() }

// Unwrap implements errors.
func (e *overloadError) Unwrap() error { return e.cause }

// longestOverload bounds what is believed of a replica's word.
const longestOverload = 30 * time.Second

// afterOverload is the pause before the next attempt: what the replica asked
// for, and up to as much again, so that those it told together do not come
// back together (FC-41).
func afterOverload(err error, pause time.Duration) time.Duration {
	var overload *overloadError
	if !errors.As(err, &overload) || overload.retryAfter <= 0 {
		return pause
	}
	asked := min(overload.retryAfter, longestOverload)
	return max(pause, asked+rand.N(asked))
}
