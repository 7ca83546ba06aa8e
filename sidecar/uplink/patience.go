package uplink

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"time"

	"github.com/forgeyard/concurrency/shared/tunnel"
)

var (
	// errSilent leaves a replica that is connected and answers nothing: it was
	// stopped, or its store does not answer it.
	errSilent = errors.New("a heartbeat was not answered in time")
	// errUnserved leaves a replica that answers, but renews nothing.
	errUnserved = errors.New("no heartbeat was renewed for too long")
)

// mostPatience is how many times as long as at first a replica is waited for
// when those before it were not better: where all are slow, moving on makes
// them slower (FC-41).
const mostPatience = 8

// stretched is d by how patient the uplink has become.
func (u *Uplink) stretched(d time.Duration) time.Duration {
	return d * time.Duration(max(u.patient.Load(), 1))
}

// moreTime is for the replica after one that was too slow.
func (u *Uplink) moreTime() { u.patient.Store(min(2*max(u.patient.Load(), 1), mostPatience)) }

// leave gives the replica up for the next one.
func (u *Uplink) leave(c *conn, why error) {
	u.moreTime()
	c.end(why)
}

// slow says whether an attempt to connect ran out of time.
func slow(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || (errors.As(err, &timeout) && timeout.Timeout())
}

// longestHandshake bounds what stretched does to the limits of a tunnel.
const longestHandshake = 5 * time.Second

// tunnel has the limits of the next tunnel.
func (u *Uplink) tunnel() tunnel.Options {
	o := u.cfg.Tunnel
	for _, d := range []*time.Duration{&o.HandshakeTimeout, &o.WriteTimeout} {
		*d = max(*d, min(u.stretched(*d), longestHandshake))
	}
	return o
}

// impatient leaves the replica unless answered is called in time.
func (u *Uplink) impatient(c *conn) (answered func(renewed bool)) {
	if u.cfg.Patience <= 0 {
		return func(bool) {}
	}
	began := u.cfg.Clock.Boot()
	timer := u.cfg.Clock.NewTimer(u.stretched(u.cfg.Patience))
	done := make(chan struct{})
	go func() {
		defer timer.Stop()
		select {
		case <-timer.C():
			u.leave(c, errSilent)
		case <-done:
		case <-c.done:
		}
	}()
	return func(renewed bool) {
		close(done)
		if renewed && u.cfg.Clock.Boot().Sub(began) < u.cfg.Patience {
			u.patient.Store(1)
		}
	}
}

// judge leaves a replica that has renewed nothing for too long, when there is
// another one to try. It answers, so the next heartbeat may be served: when
// Postgres was away for a few seconds, staying is the faster way back.
func (u *Uplink) judge(c *conn, served bool) {
	now := u.cfg.Clock.Boot()
	c.mu.Lock()
	if served {
		c.served = now
	}
	silent := now.Sub(c.served)
	c.mu.Unlock()
	if u.cfg.Patience > 0 && len(u.cfg.Addresses) > 1 && silent >= u.stretched(2*u.cfg.Patience) {
		u.leave(c, errUnserved)
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
