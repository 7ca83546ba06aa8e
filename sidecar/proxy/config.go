package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/sidecar/gate"
	"github.com/forgeyard/concurrency/sidecar/journal"
	"github.com/forgeyard/concurrency/sidecar/ownership"
	"github.com/forgeyard/concurrency/sidecar/route"
)

// Provider is one upstream.
type Provider struct {
	Name   string
	URL    *url.URL // http or https; its path is put in front
	Roots  *x509.CertPool
	Routes route.Table
}

// Validate checks name and URL.
func (p Provider) Validate() error {
	if p.Name == "" || p.Name != url.PathEscape(p.Name) {
		return fmt.Errorf("name %q: must be a plain path segment", p.Name)
	}
	if p.URL == nil || (p.URL.Scheme != "http" && p.URL.Scheme != "https") || p.URL.Host == "" {
		return fmt.Errorf("url %q: must be http:// or https:// with a host", p.URL)
	}
	if p.URL.RawQuery != "" || p.URL.Fragment != "" || p.URL.User != nil {
		return fmt.Errorf("url of %s: must have neither user, query nor fragment", p.Name)
	}
	return nil
}

func (p Provider) tls() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: p.Roots, ServerName: p.URL.Hostname(), NextProtos: []string{"http/1.1"}}
}

// Journal is the record that the proxy needs.
type Journal interface {
	Begin(ctx context.Context, e effect.Effect) error
	Settle(id string, state effect.State, reason string, status int)
	Refuse(e effect.Effect, code string)
	Find(scope, provider, key string) (effect.Effect, bool)
}

var _ Journal = (*journal.Journal)(nil)

// Confirmer asks the authority whether an effect may be sent now, for holds
// whose term says Confirm. Without nil nothing is sent.
type Confirmer interface {
	Confirm(ctx context.Context, t ownership.Term, e effect.Effect) error
}

// Config is what a Proxy needs.
type Config struct {
	Node       string
	Providers  []Provider
	Gate       *gate.Gate
	Journal    Journal
	Confirmer  Confirmer
	Clock      clock.Clock
	Log        *zap.Logger
	Registerer prometheus.Registerer
	TTL        time.Duration // of the session: TCP_USER_TIMEOUT and the wait for a confirmation stay below it
	CallLimit  time.Duration // longest time of one upstream call; default 15 min
	BodyLimit  int64         // largest body of a mutation, in bytes; default 1 GiB
	SpoolDir   string        // for bodies above 1 MiB; default the system's
}

func (c Config) withDefaults() Config {
	if c.CallLimit == 0 {
		c.CallLimit = 15 * time.Minute
	}
	if c.BodyLimit == 0 {
		c.BodyLimit = 1 << 30
	}
	return c
}
