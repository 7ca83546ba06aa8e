package uplink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/tunnel"
	"github.com/forgeyard/concurrency/sidecar/keeper"
)

// Registrar gives the registration of a new stream and hears of its answer.
type Registrar interface {
	Registration() (keeper.Registration, error)
	// Registered is called before any other request goes out on the stream.
	Registered(context.Context, keeper.Registered) error
	// Waiting is told why the authority lets this node wait.
	Waiting(lease.Answer)
	Disconnected()
	Nudged(lease.SetVersion)
}

// Inspector answers the authority's questions about this node.
type Inspector interface {
	Inspect(effects bool, limit int) Report
}

// Credential proves this node and knows which authority to trust.
type Credential interface {
	// ClientTLS is asked for every connection.
	ClientTLS(serverName string) *tls.Config
	// Problem says what is wrong with the certificate, for people; empty: nothing.
	Problem() string
	// RenewSoon is called when the authority asks for a renewal.
	RenewSoon()
}

// CertificateExpired is the reason that Waiting is told when the node's own
// certificate has run out.
const CertificateExpired lease.Reason = "certificate-expired"

// Config is what an Uplink needs.
type Config struct {
	Addresses  []string // host:port of the authority's node listener, at least one
	Credential Credential
	Node       string
	Software   string
	Registrar  Registrar
	Inspector  Inspector
	Woken      func() // the authority hints that scopes wait for a reconciler; may be nil
	Clock      clock.Clock
	Log        *zap.Logger
	Tunnel     tunnel.Options
	MaxPause   time.Duration // longest pause between two attempts to connect
	// Patience is how long a replica may leave a heartbeat without an answer, and
	// half of how long it may answer all of them with faults while there are
	// other replicas, before it is left for the next one; 0: for ever.
	Patience time.Duration
}

// Uplink is the connection to the authority. Use New, then Run.
type Uplink struct {
	cfg     Config
	patient atomic.Int64 // how many times the patience is waited at present; 0: once

	mu      sync.Mutex
	current *conn
	joining bool          // a registration was accepted; current follows when it is durable
	changed chan struct{} // closed when current changes
}

var _ keeper.Link = (*Uplink)(nil)

// New returns an Uplink that is not connected.
func New(cfg Config) *Uplink { return &Uplink{cfg: cfg, changed: make(chan struct{})} }

// firstPause is the pause after a first failure.
const firstPause = 50 * time.Millisecond

// Run connects, and connects again, until ctx ends.
func (u *Uplink) Run(ctx context.Context) error {
	pause := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstPause), backoff.WithMaxInterval(u.cfg.MaxPause),
		backoff.WithMaxElapsedTime(0), backoff.WithRandomizationFactor(0.5),
	)
	for n := 0; ctx.Err() == nil; n++ {
		addr := u.cfg.Addresses[n%len(u.cfg.Addresses)]
		wait := pause.NextBackOff()
		registered, err := u.connect(ctx, addr)
		if registered {
			pause.Reset()
			wait = firstPause + rand.N(u.cfg.MaxPause/4+1) // not every node of a replica that stopped at the same moment
		}
		var refused *waitError
		if errors.As(err, &refused) {
			u.cfg.Registrar.Waiting(refused.answer)
			wait = min(max(refused.answer.RetryAfter, firstPause), u.cfg.MaxPause)
		}
		wait = afterOverload(err, wait)
		if !registered && slow(err) {
			u.moreTime()
		}
		if problem := u.cfg.Credential.Problem(); err != nil && problem != "" {
			err = fmt.Errorf("%s: %w", problem, err)
			u.cfg.Registrar.Waiting(lease.Answer{Code: lease.Rejected, Reason: CertificateExpired, Detail: problem})
		}
		if ctx.Err() == nil {
			u.cfg.Log.Warn("no uplink", zap.String("node", u.cfg.Node), zap.String("address", addr), zap.Duration("retry_in", wait), zap.Error(err))
		}
		u.pause(ctx, wait)
	}
	return nil
}

func (u *Uplink) pause(ctx context.Context, d time.Duration) {
	t := u.cfg.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C():
	}
}

// waitError is the authority's word that this node has to wait.
type waitError struct{ answer lease.Answer }

// Error implements error.
func (e *waitError) Error() string {
	return fmt.Sprintf("register: %s (%s): %s", e.answer.Code, e.answer.Reason, e.answer.Detail)
}

// connect runs one connection from dialling to its end; registered says how
// far it came.
func (u *Uplink) connect(ctx context.Context, addr string) (registered bool, err error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false, fmt.Errorf("address %q: %w", addr, err)
	}
	t, err := tunnel.Dial(ctx, addr, u.cfg.Credential.ClientTLS(host), u.tunnel())
	if err != nil {
		return false, err
	}
	defer t.Close()
	stop := serveNode(t, u.cfg)
	defer stop()
	c, err := open(ctx, t, addr)
	if err != nil {
		return false, err
	}
	defer c.end(errStreamEnded)
	go c.read()
	go c.write()
	if err := u.register(ctx, c); err != nil {
		u.attach(nil)
		return false, err
	}
	u.judge(c, true)
	u.attach(c)
	defer u.attach(nil)
	defer u.cfg.Registrar.Disconnected()
	u.cfg.Log.Info("uplink registered", zap.String("node", u.cfg.Node), zap.String("address", addr))
	select {
	case <-ctx.Done():
	case <-t.Done():
	case <-c.done:
	}
	return true, c.cause()
}

func (u *Uplink) attach(c *conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.current, u.joining = c, false
	close(u.changed)
	u.changed = make(chan struct{})
}

// join makes requests wait for attach instead of failing: the keeper asks the
// moment that it has taken a session over.
func (u *Uplink) join() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.joining = true
}

// Reregister implements keeper.Link. The next stream is one of a new
// connection, which shows the certificate of that moment.
func (u *Uplink) Reregister() {
	u.mu.Lock()
	c := u.current
	u.mu.Unlock()
	if c != nil {
		c.end(errStreamEnded)
	}
}

// Address is the replica that is connected; empty when none is.
func (u *Uplink) Address() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.current == nil {
		return ""
	}
	return u.current.addr
}

// connection returns the registered connection, waiting for one when wait is
// set, or when there is one in a moment.
func (u *Uplink) connection(ctx context.Context, wait bool) (*conn, error) {
	for {
		u.mu.Lock()
		c, changed, joining := u.current, u.changed, u.joining
		u.mu.Unlock()
		if c != nil && !c.over() { // one that has ended is still there until Run has seen it
			return c, nil
		}
		if !wait && !joining {
			return nil, keeper.ErrUnreachable
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", keeper.ErrUnreachable, ctx.Err())
		case <-changed:
		}
	}
}
