package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/forgeyard/concurrency/sidecar/gate"
	"github.com/forgeyard/concurrency/sidecar/ownership"
	"github.com/forgeyard/concurrency/sidecar/route"
)

// Limits of what comes in.
const (
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	stopGrace      = 2 * time.Second // for running calls, once the listener is closed; less where holds last shorter
	maxHeaderBytes = 256 << 10       // beyond it: 431
)

// Proxy is the base-URL listener. Use New, then Serve.
type Proxy struct {
	cfg       Config
	providers map[string]*upstream
	metrics   metrics
	origins   *http.CrossOriginProtection
	calls     sync.WaitGroup // started effects, whoever waits for them
	ending    context.Context
	endCalls  context.CancelFunc // ends ending, and with it every call

	mu       sync.Mutex
	address  string
	running  map[callID]struct{} // keys that are being executed
	stopping bool                // no call is started any more
}

// New checks the configuration.
func New(cfg Config) (*Proxy, error) {
	p := &Proxy{
		cfg: cfg.withDefaults(), providers: map[string]*upstream{}, metrics: newMetrics(cfg.Registerer),
		origins: http.NewCrossOriginProtection(), running: map[callID]struct{}{},
	}
	p.ending, p.endCalls = context.WithCancel(context.Background())
	var errs []error
	for i, provider := range cfg.Providers {
		if err := provider.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("providers[%d].%w", i, err))
			continue
		}
		if p.providers[provider.Name] != nil {
			errs = append(errs, fmt.Errorf("providers[%d].name %q: stands twice", i, provider.Name))
		}
		p.providers[provider.Name] = newUpstream(provider, p.cfg)
	}
	return p, errors.Join(errs...)
}

// Serve answers until ctx ends; then it stops accepting, lets running requests
// end for a while, cuts the rest, and returns when every effect has its outcome.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	p.mu.Lock()
	p.address = l.Addr().String()
	p.mu.Unlock()
	srv := &http.Server{
		Handler: p, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: stdLog(p.cfg.Log),
	}
	stopped := make(chan struct{})
	cancelStop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		p.stop(srv)
	})
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		if cancelStop() {
			p.stop(srv)
		}
		return fmt.Errorf("serve proxy: %w", err)
	}
	<-stopped
	return nil
}

// stop ends what runs: whoever closes the journal next finds every outcome.
func (p *Proxy) stop(srv *http.Server) {
	grace, cancel := context.WithTimeout(context.Background(), min(stopGrace, p.cfg.TTL/5))
	defer cancel()
	if srv.Shutdown(grace) != nil {
		srv.Close()
	}
	p.mu.Lock()
	p.stopping = true
	p.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.calls.Wait()
	}()
	select {
	case <-ended:
		return
	case <-grace.Done():
	}
	p.endCalls()
	<-ended
}

// start runs f as one of the calls that stop waits for; false: it stops.
func (p *Proxy) start(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping {
		return false
	}
	p.calls.Go(f)
	return true
}

// BaseURLs names what a holder may call: provider to URL.
func (p *Proxy) BaseURLs(key ownership.Key) map[string]string {
	p.mu.Lock()
	address := p.address
	p.mu.Unlock()
	out := make(map[string]string, len(p.providers))
	for name := range p.providers {
		out[name] = "http://" + address + "/h/" + key.Secret() + "/" + name
	}
	return out
}

// Address is where Serve listens; empty before.
func (p *Proxy) Address() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.address
}

// call is one request that came in, classified.
type call struct {
	key      ownership.Key
	upstream *upstream
	path     string // escaped, below the provider
	op       route.Operation
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, refused := p.classify(r)
	if refused != nil {
		p.refuse(w, r, c, refused)
		return
	}
	if c.op.Fenced() && c.op.Kind == route.Mutation {
		p.mutate(w, r, c)
		return
	}
	p.read(w, r, c)
}

// classify refuses what is not addressed to us in one unmistakable way, and
// finds the operation.
func (p *Proxy) classify(r *http.Request) (call, *gate.Refusal) {
	var c call
	if refused := p.addressed(r); refused != nil {
		return c, refused
	}
	secret, name, path, ok := split(r.URL.EscapedPath())
	if !ok {
		return c, bad("the path must read /h/<hold key>/<provider>/...")
	}
	key, err := ownership.ParseKey(secret)
	if err != nil {
		return c, &gate.Refusal{Code: gate.CodeNoHold, Detail: "no hold of this sidecar has that key: acquire the scope first"}
	}
	c.key, c.path = key, path
	if c.upstream = p.providers[name]; c.upstream == nil {
		return c, &gate.Refusal{Code: gate.CodeRouteDenied, Detail: fmt.Sprintf("provider %q: is not configured on this sidecar", name)}
	}
	c.op, err = c.upstream.provider.Routes.Match(r.Method, path)
	if err != nil {
		return c, bad(err.Error())
	}
	if refused := keyless(r, secret); refused != nil {
		return c, refused
	}
	return c, wellFormed(r, c.op)
}

// split takes the key and the provider off the path.
func split(path string) (key, provider, rest string, ok bool) {
	below, ok := strings.CutPrefix(path, "/h/")
	if !ok {
		return "", "", "", false
	}
	key, below, ok = strings.Cut(below, "/")
	if !ok {
		return "", "", "", false
	}
	provider, rest, _ = strings.Cut(below, "/")
	return key, provider, "/" + rest, provider != ""
}

// target is where a call goes.
func (c call) target(r *http.Request) *url.URL {
	u := *c.upstream.provider.URL
	escaped := strings.TrimSuffix(u.EscapedPath(), "/") + c.path
	if path, err := url.PathUnescape(escaped); err == nil {
		u.Path, u.RawPath = path, escaped
	}
	u.RawQuery = r.URL.RawQuery // byte for byte: signatures cover it
	return &u
}
