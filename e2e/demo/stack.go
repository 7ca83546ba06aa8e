package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/forgeyard/concurrency/e2e/cluster"
	"github.com/forgeyard/concurrency/e2e/provider"
)

// policyText is the demo's policy file.
const policyText = `version: 1
rules:
  - match: acme/environment:prod
    # The provider of the demo compares tokens, so a late write of the former
    # holder cannot land, and plans are written whole: what an interrupted
    # deployer left behind needs no inspection. Elsewhere the default for
    # environments is reconcile: the scope stays closed until somebody looked.
    why: the provider compares tokens and plans are written whole
    on_unclean_end: free
  - match: acme/environment:billing
    # Here somebody must look: a half-done change of the billing environment
    # costs money.
    why: a half-done change costs money
    on_unclean_end: reconcile
`

// The sessions of the two sidecars. A is short, so that the story does not
// wait long for its expiry; B has time for an authority that restarts.
func sessionA() cluster.Session {
	return cluster.Session{
		TTL: 4 * time.Second, Interval: time.Second, UncertainAfter: 2 * time.Second,
		KillGrace: 500 * time.Millisecond, Margin: time.Second,
	}
}

func sessionB() cluster.Session {
	return cluster.Session{
		TTL: 12 * time.Second, Interval: time.Second, UncertainAfter: 3 * time.Second,
		KillGrace: time.Second, Margin: time.Second,
	}
}

// stack is everything that runs.
type stack struct {
	opts      cluster.Options
	provider  *provider.Provider // in this process; nil when it has its own
	authority *cluster.Authority
	a, b      *cluster.Sidecar
	deployers []*deployer
	server    *http.Server
}

// serve starts the provider in this process and returns its address.
func (s *stack) serve() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("serve provider: %w", err)
	}
	s.provider = provider.New()
	s.server = &http.Server{Handler: s.provider, ReadHeaderTimeout: 10 * time.Second}
	go s.server.Serve(ln)
	return ln.Addr().String(), nil
}

// start runs the authority and both sidecars.
func (s *stack) start(ctx context.Context, providerAddr string) error {
	var err error
	if s.authority, err = cluster.StartAuthority(ctx, s.opts, policyText); err != nil {
		return err
	}
	providers := []cluster.Provider{{Name: "plans", URL: "http://" + providerAddr}}
	if s.a, err = cluster.StartSidecar(ctx, s.opts, s.authority, cluster.SidecarConfig{Node: "node-a", Session: sessionA(), Providers: providers}); err != nil {
		return err
	}
	s.b, err = cluster.StartSidecar(ctx, s.opts, s.authority, cluster.SidecarConfig{Node: "node-b", Session: sessionB(), Providers: providers})
	return err
}

// deployer starts a deployer's process on a sidecar.
func (s *stack) deployer(name, scope string, on *cluster.Sidecar) (*deployer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	ordersOut, orders, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	reports, reportsIn, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer ordersOut.Close()
	defer reportsIn.Close()
	p, err := cluster.Start(cluster.Command{
		Name: name, Path: self, Args: []string{"-name", name, "-scope", scope, "-socket", on.Socket, "deployer"}, Dir: s.opts.Dir,
		Prepare: func(c *exec.Cmd) { c.Stdin, c.Stdout = ordersOut, reportsIn },
	})
	if err != nil {
		return nil, err
	}
	d := &deployer{Process: p, orders: orders, reports: json.NewDecoder(reports)}
	s.deployers = append(s.deployers, d)
	return d, nil
}

// close ends every process of the stack.
func (s *stack) close() error {
	var errs []error
	for _, d := range s.deployers {
		errs = append(errs, d.orders.Close(), d.Kill())
	}
	for _, sc := range []*cluster.Sidecar{s.a, s.b} {
		if sc != nil && sc.Process != nil {
			errs = append(errs, sc.Stop())
		}
	}
	if s.authority != nil && s.authority.Process != nil {
		errs = append(errs, s.authority.Stop())
	}
	if s.server != nil {
		errs = append(errs, s.server.Close())
	}
	return errors.Join(errs...)
}

// temporary runs f with a directory that is removed unless f fails.
func temporary(f func(dir string) error) error {
	dir, err := os.MkdirTemp("", "forgeyard-demo-")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	if err := f(dir); err != nil {
		logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
		return fmt.Errorf("%w\nlogs are kept: %v", err, logs)
	}
	return os.RemoveAll(dir)
}
