package proxy

import (
	"context"
	"net/http"
	"net/http/httputil"
	"time"

	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/sidecar/gate"
)

// read passes an operation on that changes nothing. Most reads pass whatever
// the hold's state; a gated one needs a permit and is cut with the hold.
func (p *Proxy) read(w http.ResponseWriter, r *http.Request, c call) {
	ctx := r.Context()
	if c.op.GateAll {
		permit, refused := p.cfg.Gate.Admit(c.key)
		if refused != nil {
			p.refuse(w, r, c, refused)
			return
		}
		defer permit.Done()
		cut, cancel := context.WithCancel(ctx)
		defer cancel()
		defer p.cfg.Gate.OnCut(c.key, cancel)()
		ctx = cut
	} else if _, refused := p.cfg.Gate.AdmitRead(c.key); refused != nil {
		p.refuse(w, r, c, refused)
		return
	}
	p.metrics.reads.Inc()
	target := c.target(r)
	proxy := &httputil.ReverseProxy{
		Transport:     c.upstream.reads(),
		FlushInterval: -1,
		ErrorLog:      stdLog(p.cfg.Log),
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL, pr.Out.Host = target, target.Host
			pr.Out.Header = endToEnd(pr.In.Header)
		},
		ModifyResponse: func(resp *http.Response) error {
			resp.Header = incoming(resp.Header)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			p.cfg.Log.Warn("read", zap.String("operation", c.op.Name), zap.String("cause", cause(err)))
			p.answer(w, r, &gate.Refusal{Code: gate.CodeProviderUnreachable, Detail: "the provider did not answer: " + cause(err)}, "")
		},
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// reads is the transport of reads: pooled, and free to repeat what is safe.
func (u *upstream) reads() http.RoundTripper {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pooled == nil {
		u.pooled = &http.Transport{
			DisableCompression: true, TLSClientConfig: u.provider.tls(), MaxIdleConnsPerHost: maxIdle,
			IdleConnTimeout: maxIdleAge, ResponseHeaderTimeout: time.Minute,
		}
	}
	return unobserved{u.pooled}
}

// unobserved hides a request's context values from the transport, and with
// them the trace by which ReverseProxy would pass informational answers on:
// their hop-by-hop headers are not filtered (golang/go#81320).
type unobserved struct{ inner http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (u unobserved) RoundTrip(r *http.Request) (*http.Response, error) {
	return u.inner.RoundTrip(r.WithContext(valueless{r.Context()}))
}

type valueless struct{ context.Context }

// Value implements context.Context.
func (valueless) Value(any) any { return nil }
