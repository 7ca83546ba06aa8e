package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// HTTPClient sends requests to a provider through the proxy, fenced by this
// hold. Requests are written as for the provider itself; scheme and host are
// replaced. It neither retries nor follows redirects, and fails with the hold's
// context.
func (h *Hold) HTTPClient(provider string) (*http.Client, error) {
	base, ok := h.BaseURLs()[provider]
	if !ok {
		return nil, fmt.Errorf("provider %q: is not configured on this sidecar", provider)
	}
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("provider %q: %w", provider, err)
	}
	// A fresh connection each time: net/http sends again on a kept one that
	// breaks, reads always and mutations when they carry an Idempotency-Key.
	inner := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	return &http.Client{
		Transport:     &fencedTransport{hold: h, base: u, inner: inner},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// fencedTransport rewrites requests to the hold's base URL.
type fencedTransport struct {
	hold  *Hold
	base  *url.URL
	inner *http.Transport
}

// errReplayed guards against net/http sending a body twice.
var errReplayed = errors.New("client: request body was read twice")

// RoundTrip implements http.RoundTripper.
func (t *fencedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.hold.ctx.Err(); err != nil {
		return nil, fmt.Errorf("hold on %s has ended: %w", t.hold.scope, context.Cause(t.hold.ctx))
	}
	out := r.Clone(r.Context())
	escaped := strings.TrimSuffix(t.base.EscapedPath(), "/") + r.URL.EscapedPath()
	path, err := url.PathUnescape(escaped)
	if err != nil {
		return nil, fmt.Errorf("path %q: %w", r.URL.Path, err)
	}
	out.URL = &url.URL{Scheme: t.base.Scheme, Host: t.base.Host, Path: path, RawPath: escaped, RawQuery: r.URL.RawQuery}
	out.Host = ""
	out.GetBody = func() (io.ReadCloser, error) { return nil, errReplayed } // the sidecar sends once, and so do we
	return t.inner.RoundTrip(out)
}
