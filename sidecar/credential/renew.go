package credential

import (
	"context"
	"crypto/x509"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"
	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/shared/identity"
)

const (
	// lookEvery bounds the sleep of the loop: its timer stands still while the
	// machine sleeps, the certificate does not.
	lookEvery = time.Hour
	// soonWithin spreads the renewals that the authority asks a fleet for.
	soonWithin = 30 * time.Second
	// apart keeps a node whose replicas issue by different CAs for a while from
	// renewing at each of them in turn.
	apart = time.Minute
	// askTimeout bounds one attempt, the wait for a connection included.
	askTimeout = time.Minute

	firstRetry   = 5 * time.Second
	longestRetry = 10 * time.Minute
)

// dueAt is when a certificate is renewed: at two thirds of its life, plus up to
// a tenth of the rest, so that nodes enrolled together do not come together.
func dueAt(leaf *x509.Certificate) time.Time {
	at := identity.RenewAt(leaf)
	return at.Add(rand.N(leaf.NotAfter.Sub(at)/10 + 1))
}

// RenewSoon asks for a renewal before its time: the authority has a new CA.
func (c *Credential) RenewSoon() {
	c.mu.Lock()
	at := c.cfg.Clock.Now().Add(rand.N(soonWithin))
	if earliest := identity.IssuedAt(c.pair.Leaf).Add(apart); at.Before(earliest) {
		at = earliest
	}
	if at.Before(c.dueAt) {
		c.dueAt = at
	}
	c.mu.Unlock()
	select {
	case c.soon <- struct{}{}:
	default:
	}
}

// Run renews the certificate until ctx ends. After each renewal it calls
// redial, so that the next connection shows the new one.
func (c *Credential) Run(ctx context.Context, from Issuer, redial func()) error {
	if c.given() {
		return nil
	}
	pause := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstRetry), backoff.WithMaxInterval(longestRetry),
		backoff.WithMaxElapsedTime(0), backoff.WithRandomizationFactor(0.5),
	)
	timer := c.cfg.Clock.NewTimer(c.untilDue())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C():
		case <-c.soon:
		}
		wait := c.untilDue()
		if wait <= 0 {
			wait = c.attempt(ctx, from, redial, pause)
		}
		timer.Reset(min(wait, lookEvery))
	}
}

func (c *Credential) untilDue() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return min(c.dueAt.Sub(c.cfg.Clock.Now()), lookEvery)
}

// attempt renews once and returns how long to wait for the next look.
func (c *Credential) attempt(ctx context.Context, from Issuer, redial func(), pause *backoff.ExponentialBackOff) time.Duration {
	bounded, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := c.obtain(bounded, from); err != nil {
		if ctx.Err() != nil {
			return 0
		}
		wait := pause.NextBackOff()
		c.metrics.renewals.WithLabelValues("failed").Inc()
		c.cfg.Log.Warn("node certificate not renewed", zap.String("node", c.cfg.Node),
			zap.Duration("expires_in", c.left().Round(time.Second)), zap.Duration("retry_in", wait), zap.Error(err))
		c.postpone(wait)
		return wait
	}
	pause.Reset()
	c.metrics.renewals.WithLabelValues("renewed").Inc()
	c.cfg.Log.Info("node certificate renewed", zap.String("node", c.cfg.Node), zap.Duration("expires_in", c.left().Round(time.Second)))
	redial()
	return c.untilDue()
}

// postpone puts the next attempt off.
func (c *Credential) postpone(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dueAt = c.cfg.Clock.Now().Add(d)
}
