package proxy

import (
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/forgeyard/concurrency/sidecar/gate"
	"github.com/forgeyard/concurrency/sidecar/route"
)

func bad(detail string) *gate.Refusal {
	return &gate.Refusal{Code: gate.CodeBadRequest, Detail: detail}
}

// addressed refuses requests that were meant for somebody else: a foreign Host
// (DNS rebinding), a browser page of another origin, an absolute target.
func (p *Proxy) addressed(r *http.Request) *gate.Refusal {
	_, port, err := net.SplitHostPort(p.Address())
	if err != nil {
		return bad("this listener has no address")
	}
	allowed := func(host string) bool {
		h, hostPort, err := net.SplitHostPort(host)
		if err != nil || hostPort != port {
			return false
		}
		ip := net.ParseIP(h)
		return h == "localhost" || (ip != nil && ip.IsLoopback())
	}
	if !allowed(r.Host) {
		return bad(fmt.Sprintf("Host %q: must be the address of this proxy", r.Host))
	}
	if r.URL.IsAbs() && !allowed(r.URL.Host) {
		return bad(fmt.Sprintf("absolute target with host %q: this is no forward proxy", r.URL.Host))
	}
	if err := p.origins.Check(r); err != nil {
		return &gate.Refusal{Code: gate.CodeRouteDenied, Detail: "Origin: " + err.Error()}
	}
	return nil
}

// keyless keeps the hold key from the provider where a client repeats the URL
// that it called: a Referer is dropped, anything else refused.
func keyless(r *http.Request, secret string) *gate.Refusal {
	if strings.Contains(r.URL.RawQuery, secret) {
		return bad("query: names the hold key, which must not reach the provider")
	}
	for name, values := range r.Header {
		for _, v := range values {
			if !strings.Contains(v, secret) {
				continue
			}
			if name != "Referer" {
				return bad("header " + name + ": names the hold key, which must not reach the provider")
			}
			r.Header.Del(name)
		}
	}
	return nil
}

// wellFormed refuses what servers could read differently.
func wellFormed(r *http.Request, op route.Operation) *gate.Refusal {
	if op.Kind == route.Mutation && strings.Contains(r.URL.RawQuery, ";") {
		return bad("query has a semicolon: servers split it differently")
	}
	if r.Header.Get("Upgrade") != "" && !op.Upgrade {
		return &gate.Refusal{Code: gate.CodeRouteDenied, Detail: "Upgrade: the route does not allow a tunnel"}
	}
	if len(r.Header.Values("Idempotency-Key")) > 1 {
		return bad("Idempotency-Key: stands twice")
	}
	if key := callerKey(r); len(key) > 255 {
		return bad(fmt.Sprintf("Idempotency-Key of %d characters: must be 1 to 255", len(key)))
	}
	return nil
}

// callerKey is the caller's own key; quoted and bare forms name the same.
func callerKey(r *http.Request) string {
	key := strings.TrimSpace(r.Header.Get("Idempotency-Key"))
	if len(key) >= 2 && key[0] == '"' && key[len(key)-1] == '"' {
		key = key[1 : len(key)-1]
	}
	return key
}
