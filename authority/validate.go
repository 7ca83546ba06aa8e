package authority

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/forgeyard/concurrency/shared/conffile"
	"github.com/forgeyard/concurrency/shared/identity"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/telemetry"
)

// Validate reports everything that is wrong, each with its field path and the
// values that contradict each other.
func (c Config) Validate() error {
	var p conffile.Problems
	c.Store.validate(&p)
	c.Listen.validate(&p)
	c.TLS.validate(&p)
	needFile(&p, "receipt_key_file", c.ReceiptKeyFile)
	c.Timing.validate(&p)
	for _, problem := range c.Policy.Problems() {
		p.Addf("policy."+problem.Path, "%s", problem.Text)
	}
	c.validatePolicyBounds(&p)
	for i, t := range c.People.Tokens {
		if field, problem := t.Check(); problem != "" {
			p.Addf(element("people.tokens", i, field), "%s", problem)
		}
	}
	above(&p, "retention.commands", c.Retention.Commands, time.Hour)
	above(&p, "retention.ended", c.Retention.Ended, c.Retention.Commands)
	above(&p, "retention.audit", c.Retention.Audit, c.Retention.Ended)
	if _, err := telemetry.NewLogger(c.Log.Level, c.Log.Format); err != nil {
		p.Addf("log", "%s", err)
	}
	return p.Err()
}

func (s StoreConfig) validate(p *conffile.Problems) {
	switch s.Kind {
	case StoreSQLite:
		if s.Path == "" {
			p.Addf("store.path", "\"\": must name the file of the embedded store")
		}
		if s.MemoryPath == "" {
			p.Addf("store.memory_path", "\"\": must name the outside memory, in another directory than store.path")
			return
		}
		if filepath.Dir(s.Path) == filepath.Dir(s.MemoryPath) {
			p.Addf("store.memory_path", "%q: must lie in another directory than store.path %q, so that one copy or restore does not take both", s.MemoryPath, s.Path)
		}
	case StorePostgres:
		if s.URL == "" {
			p.Addf("store.url", "\"\": must be a postgres:// address")
		}
		if s.MaxConns < 2 {
			p.Addf("store.max_conns", "%d: must be at least 2: commands and heartbeats have a connection each", s.MaxConns)
		}
	default:
		p.Addf("store.kind", "%q: must be sqlite or postgres", s.Kind)
	}
}

func (l ListenConfig) validate(p *conffile.Problems) {
	for _, a := range []struct{ path, addr string }{
		{"listen.nodes", l.Nodes}, {"listen.people", l.People}, {"listen.ops", l.Ops},
	} {
		if _, _, err := net.SplitHostPort(a.addr); err != nil {
			p.Addf(a.path, "%q: must be host:port", a.addr)
		}
	}
}

func (t TLSConfig) validate(p *conffile.Problems) {
	needFile(p, "tls.certificate", t.Certificate)
	needFile(p, "tls.key", t.Key)
	needFile(p, "tls.ca", t.CA)
	if t.NodeCAKey != "" {
		if _, err := identity.LoadCAFiles(t.CA, t.NodeCAKey, t.TrustDomain); err != nil {
			p.Addf("tls.node_ca_key", "%q with tls.ca %q: %v", t.NodeCAKey, t.CA, err)
		}
	}
	if t.TrustDomain == "" {
		p.Addf("tls.trust_domain", "\"\": must not be empty")
	}
	above(p, "tls.node_certificate_life", t.NodeLife, time.Hour)
}

func (t TimingConfig) validate(p *conffile.Problems) {
	above(p, "timing.max_ttl", t.MaxTTL, lease.TTLFloor)
	above(p, "timing.interval", t.Interval, time.Second)
	above(p, "timing.sweep", t.Sweep, 10*time.Millisecond)
	above(p, "timing.lock_delay", t.LockDelay, 400*time.Millisecond)
	above(p, "timing.sweep_grace", t.SweepGrace, 0)
	if t.Sweep >= t.Interval {
		p.Addf("timing.sweep", "%s: must be below timing.interval %s: an idle authority commits once a sweep", t.Sweep, t.Interval)
	}
}

// validatePolicyBounds relates the policies to what sessions may have.
func (c Config) validatePolicyBounds(p *conffile.Problems) {
	for _, entry := range c.Policy.All() {
		at := "policy." + entry.Path
		if entry.Policy.MinTTL > c.Timing.MaxTTL {
			p.Addf(at+".min_ttl", "%s: must not be above timing.max_ttl %s: no session could take such a scope", entry.Policy.MinTTL, c.Timing.MaxTTL)
		}
		if entry.Policy.LockDelay < c.Timing.LockDelay {
			p.Addf(at+".lock_delay", "%s: must not be below timing.lock_delay %s, which sidecars build their budget on", entry.Policy.LockDelay, c.Timing.LockDelay)
		}
	}
}

func needFile(p *conffile.Problems, path, file string) {
	if file == "" {
		p.Addf(path, "\"\": must name a file")
		return
	}
	if _, err := os.Stat(file); err != nil {
		p.Addf(path, "%q: %v", file, err)
	}
}

func above(p *conffile.Problems, path string, d, least time.Duration) {
	if d < least {
		p.Addf(path, "%s: must be at least %s", d, least)
	}
}

func element(path string, i int, field string) string {
	return fmt.Sprintf("%s[%d].%s", path, i, field)
}
