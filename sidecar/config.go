package sidecar

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"time"

	"github.com/forgeyard/concurrency/shared/conffile"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/identity"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/proxy"
	"github.com/forgeyard/concurrency/sidecar/route"
)

// EnvPrefix starts the environment variables of the configuration.
const EnvPrefix = "FORGEYARD_SIDECAR"

// Software is the version that is shown to people and peers.
const Software = "forgeyard-sidecar/0.1"

// Config is the sidecar's configuration, as file, environment and flags give
// it.
type Config struct {
	Node          string           `config:"node"`
	DataDir       string           `config:"data_dir"` // private; one sidecar has it
	Authority     AuthorityConfig  `config:"authority"`
	Session       SessionConfig    `config:"session"`
	SettleTimeout time.Duration    `config:"settle_timeout"` // for outcomes, before a release says "unknown"
	Local         LocalConfig      `config:"local"`
	Proxy         ProxyConfig      `config:"proxy"`
	Providers     []ProviderConfig `config:"providers"`
	Ops           OpsConfig        `config:"ops"`
	Log           LogConfig        `config:"log"`
	ReleaseOnStop bool             `config:"release_on_stop"`
}

// AuthorityConfig says where the authority is and how this node proves itself.
type AuthorityConfig struct {
	Addresses       []string `config:"addresses"`        // host:port of the node listeners of all replicas, tried in turn, in a random order
	PeopleAddress   string   `config:"people_address"`   // host:port, for enrolment
	CAFile          string   `config:"ca_file"`          // trusted for the authority
	JoinTokenFile   string   `config:"join_token_file"`  // for enrolment
	CertificateFile string   `config:"certificate_file"` // given, instead of enrolment
	KeyFile         string   `config:"key_file"`
}

// SessionConfig is the budget of DESIGN 4.6; the lock delay is the authority's.
type SessionConfig struct {
	TTL            time.Duration `config:"ttl"`
	Interval       time.Duration `config:"interval"`
	UncertainAfter time.Duration `config:"uncertain_after"`
	KillGrace      time.Duration `config:"kill_grace"`
	Margin         time.Duration `config:"margin"`
}

// LocalConfig is the controllers' door.
type LocalConfig struct {
	Socket string `config:"socket"` // default: sidecar.sock in data_dir
}

// ProxyConfig is the base-URL listener.
type ProxyConfig struct {
	Listen    string        `config:"listen"` // loopback only
	CallLimit time.Duration `config:"call_limit"`
	BodyLimit int64         `config:"body_limit"` // bytes
}

// OpsConfig is the operators' surface; empty: none.
type OpsConfig struct {
	Listen string `config:"listen"`
}

// LogConfig says what is logged and how.
type LogConfig struct {
	Level  string `config:"level"`
	Format string `config:"format"`
}

// ProviderConfig is one upstream with its routes.
type ProviderConfig struct {
	Name   string        `config:"name"`
	URL    string        `config:"url"`
	CAFile string        `config:"ca_file"` // empty: the system's roots
	Routes []RouteConfig `config:"routes"`
}

// RouteConfig is one operation of a provider.
type RouteConfig struct {
	Name        string   `config:"name"`
	Methods     []string `config:"methods"`
	Path        string   `config:"path"`
	Kind        string   `config:"kind"`         // read or mutation
	RetrySafety string   `config:"retry_safety"` // of a mutation; default manual-only
	Gate        string   `config:"gate"`         // "all": a read passes only while owned
}

// DefaultConfig holds the defaults of DESIGN 4.
func DefaultConfig() Config {
	b := lease.DefaultBudget()
	return Config{
		Session: SessionConfig{
			TTL: b.TTL, Interval: b.Interval, UncertainAfter: b.UncertainAfter, KillGrace: b.KillGrace, Margin: b.Margin,
		},
		SettleTimeout: 30 * time.Second,
		Proxy:         ProxyConfig{Listen: "127.0.0.1:0", CallLimit: 15 * time.Minute, BodyLimit: 1 << 30},
		Log:           LogConfig{Level: "info", Format: "json"},
	}
}

// budget is the session's, with the least lock delay that the budget needs:
// the authority's own is checked when it is told.
func (c Config) budget() lease.Budget {
	b := lease.Budget{
		TTL: c.Session.TTL, Interval: c.Session.Interval, UncertainAfter: c.Session.UncertainAfter,
		KillGrace: c.Session.KillGrace, Margin: c.Session.Margin,
	}
	b.LockDelay = max(lease.MarginFloor+b.TTL/5-b.Margin, 0)
	return b
}

// Validate joins every problem, each with its path and the values.
func (c Config) Validate() error {
	var p conffile.Problems
	if err := (identity.Node{Name: c.Node, Tenants: []string{"any"}}).Validate(); err != nil {
		p.Add("node", err)
	}
	if c.DataDir == "" {
		p.Addf("data_dir", "must name a private directory")
	}
	p.Add("session", c.budget().Validate())
	if c.SettleTimeout <= 0 {
		p.Addf("settle_timeout", "%s: must be above 0", c.SettleTimeout)
	}
	c.Authority.validate(&p)
	c.validateListeners(&p)
	_, err := c.providers()
	p.Add("providers", err)
	return p.Err()
}

func (a AuthorityConfig) validate(p *conffile.Problems) {
	if len(a.Addresses) == 0 {
		p.Addf("authority.addresses", "must have at least one host:port")
	}
	for i, addr := range a.Addresses {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			p.Addf(fmt.Sprintf("authority.addresses[%d]", i), "%q: must read host:port", addr)
		}
	}
	if a.CAFile == "" {
		p.Addf("authority.ca_file", "must name the PEM file that the authority's certificate is checked against")
	}
	switch given := a.CertificateFile != ""; {
	case given != (a.KeyFile != ""):
		p.Addf("authority.certificate_file", "%q and key_file %q: both or none", a.CertificateFile, a.KeyFile)
	case !given && (a.JoinTokenFile == "" || a.PeopleAddress == ""):
		p.Addf("authority.join_token_file", "%q with people_address %q: without a certificate both are needed to enrol", a.JoinTokenFile, a.PeopleAddress)
	}
}

func (c Config) validateListeners(p *conffile.Problems) {
	host, _, err := net.SplitHostPort(c.Proxy.Listen)
	if ip := net.ParseIP(host); err != nil || (host != "localhost" && (ip == nil || !ip.IsLoopback())) {
		p.Addf("proxy.listen", "%q: must be a loopback address with a port: whoever reaches it and knows a key acts as its holder", c.Proxy.Listen)
	}
	if c.Ops.Listen != "" {
		if _, _, err := net.SplitHostPort(c.Ops.Listen); err != nil {
			p.Addf("ops.listen", "%q: must read host:port", c.Ops.Listen)
		}
	}
	if len(c.socket()) > 100 {
		p.Addf("local.socket", "%q: a socket's path must have at most 100 characters", c.socket())
	}
}

func (c Config) socket() string {
	if c.Local.Socket != "" {
		return c.Local.Socket
	}
	return filepath.Join(c.DataDir, "sidecar.sock")
}

// providers compiles the routes and loads the roots.
func (c Config) providers() ([]proxy.Provider, error) {
	var p conffile.Problems
	var out []proxy.Provider
	for i, conf := range c.Providers {
		at := fmt.Sprintf("[%d]", i)
		u, err := url.Parse(conf.URL)
		if err != nil {
			p.Addf(at+".url", "%q: %v", conf.URL, err)
			continue
		}
		provider := proxy.Provider{Name: conf.Name, URL: u}
		if provider.Routes, err = route.Compile(routes(conf.Routes)); err != nil {
			p.Add(at, err)
		}
		if conf.CAFile != "" {
			if provider.Roots, err = identity.LoadPool(conf.CAFile); err != nil {
				p.Add(at+".ca_file", err)
			}
		}
		p.Add(at, provider.Validate())
		out = append(out, provider)
	}
	return out, p.Err()
}

func routes(conf []RouteConfig) []route.Route {
	out := make([]route.Route, 0, len(conf))
	for _, r := range conf {
		out = append(out, route.Route{
			Name: r.Name, Methods: r.Methods, Path: r.Path, Kind: route.Kind(r.Kind), Safety: effect.Safety(r.RetrySafety), GateAll: r.Gate == "all",
		})
	}
	return out
}
