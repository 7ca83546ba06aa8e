package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/sidecar/gate"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// Bounds of the idle connections to one provider.
const (
	maxIdle    = 256
	maxIdleAge = 5 * time.Second // below what servers commonly allow
)

// upstream sends to one provider. Each send is a single attempt on an
// http.ClientConn, which has no retry in it; net/http.Transport would repeat a
// request with an Idempotency-Key on a fresh connection (FC-63).
type upstream struct {
	provider Provider
	clock    clock.Clock
	dialer   dialer

	mu     sync.Mutex
	idle   []*link
	pooled *http.Transport
}

// link is one connection with the HTTP/1.1 client on it.
type link struct {
	client *http.ClientConn
	conn   *fenced
	since  boottime.Instant // idle
	uncut  func()           // takes back that the hold's end closes it while it is idle; or nil
}

func newUpstream(p Provider, cfg Config) *upstream {
	u := &upstream{provider: p, clock: cfg.Clock, dialer: newDialer(nil, cfg.TTL)}
	if p.URL.Scheme == "https" {
		u.dialer = newDialer(p.tls(), cfg.TTL)
	}
	return u
}

func (u *upstream) address() string {
	port := u.provider.URL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.provider.URL.Scheme]
	}
	return net.JoinHostPort(u.provider.URL.Hostname(), port)
}

// get returns an idle connection for operations that may find it stale, else
// a fresh one: on a stale one an attempt can end Unknown for nothing.
func (u *upstream) get(ctx context.Context, safety effect.Safety) (*link, error) {
	if safety == effect.Idempotent || safety == effect.ProviderIdempotent {
		if l := u.takeIdle(); l != nil {
			return l, nil
		}
	}
	var made *fenced
	t := &http.Transport{
		DisableCompression: true, // the answer passes byte for byte
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := u.dialer.dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			made = conn.(*fenced)
			return conn, nil
		},
	}
	// The scheme is http on purpose: the dialer has done TLS.
	client, err := t.NewClientConn(ctx, "http", u.address())
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", u.provider.Name, err)
	}
	if made == nil {
		client.Close()
		return nil, errors.New("connect to " + u.provider.Name + ": no connection")
	}
	return &link{client: client, conn: made}, nil
}

func (u *upstream) takeIdle() *link {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.clock.Boot()
	for len(u.idle) > 0 {
		l := u.idle[len(u.idle)-1]
		u.idle = u.idle[:len(u.idle)-1]
		if l.uncut != nil {
			l.uncut()
			l.uncut = nil
		}
		if l.client.Err() == nil && now.Sub(l.since) < maxIdleAge {
			return l
		}
		l.close()
	}
	return nil
}

// put keeps a connection whose call was answered in full. The end of the hold
// that used it last closes it, unless another one has it by then (FC-65).
func (u *upstream) put(l *link, g *gate.Gate, key ownership.Key) {
	l.conn.end()
	if !u.keep(l) {
		l.close()
		return
	}
	uncut := g.OnCut(key, func() { u.drop(l) }) // may run at once: u.mu is not held
	u.mu.Lock()
	defer u.mu.Unlock()
	if !slices.Contains(u.idle, l) { // taken again meanwhile
		uncut()
		return
	}
	l.uncut = uncut
}

func (u *upstream) keep(l *link) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if l.client.Err() != nil || len(u.idle) >= maxIdle {
		return false
	}
	l.since = u.clock.Boot()
	u.idle = append(u.idle, l)
	return true
}

// drop closes a connection that is idle still.
func (u *upstream) drop(l *link) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if i := slices.Index(u.idle, l); i >= 0 {
		u.idle = slices.Delete(u.idle, i, i+1)
		l.close()
	}
}

// close ends a settled connection in order.
func (l *link) close() {
	l.conn.settled()
	l.client.Close()
}
