package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/forgeyard/concurrency/shared/identity"
)

// Options are common to the processes of one cluster.
type Options struct {
	Bin      string // directory of the three programs
	Dir      string // for data, logs and configuration
	Detached bool   // processes outlive the parent
}

func (o Options) program(name string) string { return filepath.Join(o.Bin, name) }

// AuthorityReady is what the authority announces.
type AuthorityReady struct {
	Nodes          string `json:"nodes"`
	People         string `json:"people"`
	Ops            string `json:"ops"`
	CA             string `json:"ca"`
	JoinTokenFile  string `json:"join_token_file"`
	AdminTokenFile string `json:"admin_token_file"`
	OperatorConfig string `json:"operator_config"`
	ProcessID      int    `json:"pid"`
}

func (r AuthorityReady) pid() int { return r.ProcessID }

// Authority is one authority in dev mode. Its addresses stay the same over
// restarts.
type Authority struct {
	*Process
	AuthorityReady
	opts    Options
	args    []string
	replica int
	ca      *identity.CA // nil: nodes enrol
}

// StartAuthority starts one whose policy section is the given YAML.
func StartAuthority(ctx context.Context, opts Options, policy string) (*Authority, error) {
	a := &Authority{opts: opts}
	if err := os.MkdirAll(a.dir(), 0o700); err != nil {
		return nil, fmt.Errorf("start authority: %w", err)
	}
	a.args = []string{"dev", "--data-dir", a.dir(), "--log.format", "console"}
	if policy != "" {
		file := filepath.Join(opts.Dir, "policy.yaml")
		if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
			return nil, fmt.Errorf("start authority: %w", err)
		}
		a.args = append(a.args, "--policy-file", file)
	}
	if err := a.start(ctx, a.args); err != nil {
		return nil, err
	}
	a.args = append(a.args, "--listen-nodes", a.Nodes, "--listen-people", a.People, "--listen-ops", a.Ops)
	return a, nil
}

// Restart starts a stopped authority again on its data and addresses.
func (a *Authority) Restart(ctx context.Context) error {
	if a.ca != nil {
		return a.serve(ctx)
	}
	return a.start(ctx, a.args)
}

// admit returns how a node proves itself: by join token, or by a certificate
// that is written into dir.
func (a *Authority) admit(node, dir string) (map[string]any, error) {
	if a.ca == nil {
		return map[string]any{"people_address": a.People, "ca_file": a.CA, "join_token_file": a.JoinTokenFile}, nil
	}
	certFile, keyFile, err := a.Certify(node, dir)
	if err != nil {
		return nil, err
	}
	return map[string]any{"ca_file": a.CA, "certificate_file": certFile, "key_file": keyFile}, nil
}

// Certify writes a node's certificate and its key into dir; the authority must
// be a served one.
func (a *Authority) Certify(node, dir string) (certFile, keyFile string, err error) {
	key, csr, err := identity.NewNodeKey(node)
	if err != nil {
		return "", "", err
	}
	chain, err := a.ca.IssueNode(csr, identity.Node{Name: node, Tenants: []string{"acme"}}, time.Now(), 24*time.Hour)
	if err != nil {
		return "", "", err
	}
	certFile, keyFile = filepath.Join(dir, "given.pem"), filepath.Join(dir, "given-key.pem")
	return certFile, keyFile, identity.WritePair(certFile, keyFile, chain, key)
}

func (a *Authority) dir() string {
	if a.replica > 0 {
		return filepath.Join(a.opts.Dir, fmt.Sprintf("authority-%d", a.replica+1))
	}
	return filepath.Join(a.opts.Dir, "authority")
}

func (a *Authority) start(ctx context.Context, args []string) error {
	p, err := Start(Command{Name: "authority", Path: a.opts.program("forgeyard-authority"), Args: args, Dir: a.opts.Dir, Detached: a.opts.Detached})
	if err != nil {
		return err
	}
	ready, err := awaitReady[AuthorityReady](ctx, p, filepath.Join(a.dir(), "ready.json"))
	if err != nil {
		return errors.Join(err, p.Stop())
	}
	a.Process, a.AuthorityReady = p, ready
	return nil
}
