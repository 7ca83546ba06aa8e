package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"
)

// SidecarReady is what a sidecar announces.
type SidecarReady struct {
	Socket    string `json:"socket"`
	Proxy     string `json:"proxy"`
	Ops       string `json:"ops"`
	Node      string `json:"node"`
	ProcessID int    `json:"pid"`
}

func (r SidecarReady) pid() int { return r.ProcessID }

// Session holds the figures of a sidecar's liveness.
type Session struct {
	TTL            time.Duration `yaml:"ttl"`
	Interval       time.Duration `yaml:"interval"`
	UncertainAfter time.Duration `yaml:"uncertain_after"`
	KillGrace      time.Duration `yaml:"kill_grace"`
	Margin         time.Duration `yaml:"margin"`
}

// Provider is one upstream of a sidecar's proxy.
type Provider struct {
	Name string `yaml:"name"`
	URL  string `yaml:"url"`
}

// SidecarConfig is the part of a sidecar's configuration that scenarios set.
type SidecarConfig struct {
	Node      string
	Session   Session
	Providers []Provider
	Settle    time.Duration
	Via       string   // address for nodes to dial instead of the authority's
	Addresses []string // several, instead of Via
}

// Sidecar is one sidecar. Its data directory stays the same over restarts.
type Sidecar struct {
	*Process
	SidecarReady
	opts Options
	dir  string
}

// DataDir is where it keeps its cache and journal.
func (s *Sidecar) DataDir() string { return s.dir }

// StartSidecar enrols and starts one.
func StartSidecar(ctx context.Context, opts Options, a *Authority, c SidecarConfig) (*Sidecar, error) {
	s := &Sidecar{opts: opts, dir: filepath.Join(opts.Dir, c.Node)}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("start sidecar: %w", err)
	}
	nodes := a.Nodes
	if c.Via != "" {
		nodes = c.Via
	}
	settle := c.Settle
	if settle == 0 {
		settle = 5 * time.Second
	}
	identity, err := a.admit(c.Node, s.dir)
	if err != nil {
		return nil, fmt.Errorf("start sidecar: %w", err)
	}
	identity["addresses"] = []string{nodes}
	if len(c.Addresses) > 0 {
		identity["addresses"] = c.Addresses
	}
	text, err := yaml.Marshal(map[string]any{
		"node": c.Node, "data_dir": s.dir, "authority": identity,
		"session": c.Session, "settle_timeout": settle.String(),
		"local":     map[string]any{"socket": filepath.Join(s.dir, "local.sock")},
		"proxy":     map[string]any{"listen": "127.0.0.1:0"},
		"ops":       map[string]any{"listen": "127.0.0.1:0"},
		"providers": c.Providers, "log": map[string]any{"level": "info", "format": "console"},
	})
	if err != nil {
		return nil, fmt.Errorf("start sidecar: %w", err)
	}
	if err := os.WriteFile(s.config(), text, 0o600); err != nil {
		return nil, fmt.Errorf("start sidecar: %w", err)
	}
	return s, s.Restart(ctx)
}

// Restart starts a stopped sidecar again.
func (s *Sidecar) Restart(ctx context.Context) error {
	p, err := Start(Command{
		Name: filepath.Base(s.dir), Path: s.opts.program("forgeyard-sidecar"), Args: []string{"run", "--config", s.config()},
		Dir: s.opts.Dir, Detached: s.opts.Detached,
	})
	if err != nil {
		return err
	}
	ready, err := awaitReady[SidecarReady](ctx, p, filepath.Join(s.dir, "ready.json"))
	if err != nil {
		return errors.Join(err, p.Stop())
	}
	s.Process, s.SidecarReady = p, ready
	return nil
}

func (s *Sidecar) config() string { return filepath.Join(s.dir, "sidecar.yaml") }

// Local speaks to the sidecar's own API.
func (s *Sidecar) Local() *Local { return NewLocal(s.Socket) }
