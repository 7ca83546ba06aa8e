package cluster

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/forgeyard/concurrency/shared/identity"
)

// Serving configures an authority as in production: `serve` with a file.
type Serving struct {
	PostgresURL string // empty: the embedded store
	ListenURL   string // past the pooler that PostgresURL leads through
	Policy      map[string]any
	Timing      map[string]any // of the authority; nil: its defaults
	Replica     int            // the number of the replica; 0 is the first
	Of          *Authority     // the first replica, whose keys later ones share
}

// ServeAuthority starts an authority that listens for nodes on every address
// of this machine's loopback, so that one sidecar's path to it can be cut
// alone: 127.0.0.2 is in its certificate too.
func ServeAuthority(ctx context.Context, opts Options, c Serving) (*Authority, error) {
	a := &Authority{opts: opts, replica: c.Replica}
	if err := os.MkdirAll(a.dir(), 0o700); err != nil {
		return nil, fmt.Errorf("serve authority: %w", err)
	}
	if err := a.configure(c); err != nil {
		return nil, fmt.Errorf("serve authority: %w", err)
	}
	return a, a.serve(ctx)
}

func (a *Authority) configure(c Serving) error {
	var ports [3]string
	for i := range ports {
		port, err := freePort()
		if err != nil {
			return err
		}
		ports[i] = port
	}
	a.Nodes, a.People, a.Ops = "127.0.0.1:"+ports[0], "127.0.0.1:"+ports[1], "127.0.0.1:"+ports[2]
	if err := a.keys(c.Of); err != nil {
		return err
	}
	token, err := os.ReadFile(a.AdminTokenFile)
	if err != nil {
		return err
	}
	store := map[string]any{"kind": "sqlite", "path": filepath.Join(a.dir(), "store", "authority.db"), "memory_path": filepath.Join(a.dir(), "memory", "outside.db")}
	if c.PostgresURL != "" {
		store = map[string]any{"kind": "postgres", "url": c.PostgresURL, "listen_url": c.ListenURL}
	}
	for _, sub := range []string{"store", "memory"} {
		if err := os.MkdirAll(filepath.Join(a.dir(), sub), 0o700); err != nil {
			return err
		}
	}
	hash := sha256.Sum256(token)
	file := func(name string) string { return filepath.Join(a.dir(), name) }
	config := map[string]any{
		"store":            store,
		"listen":           map[string]any{"nodes": "0.0.0.0:" + ports[0], "people": a.People, "ops": a.Ops},
		"tls":              map[string]any{"certificate": file("server.pem"), "key": file("server-key.pem"), "ca": file("ca.pem")},
		"receipt_key_file": file("receipt.key"), "policy": c.Policy, "log": map[string]any{"format": "console"},
		"people": map[string]any{"tokens": []any{map[string]any{
			"name": "admin", "sha256": hex.EncodeToString(hash[:]), "roles": []string{"concurrency.admin"}, "tenants": []string{"*"},
		}}},
	}
	if c.Timing != nil {
		config["timing"] = c.Timing
	}
	return writeYAML(file("authority.yaml"), config)
}

// keys makes the CA, the server's certificate, the receipt key and the files
// for people; a later replica copies what it shares with the first.
func (a *Authority) keys(of *Authority) error {
	file := func(name string) string { return filepath.Join(a.dir(), name) }
	a.CA, a.AdminTokenFile, a.OperatorConfig = file("ca.pem"), file("admin.token"), file("operator.yaml")
	if of != nil {
		a.ca = of.ca
		for _, name := range []string{"ca.pem", "ca-key.pem", "server.pem", "server-key.pem", "receipt.key", "admin.token"} {
			text, err := os.ReadFile(filepath.Join(of.dir(), name))
			if err != nil {
				return err
			}
			if err := os.WriteFile(file(name), text, 0o600); err != nil {
				return err
			}
		}
		return writeYAML(a.OperatorConfig, map[string]any{"address": a.People, "ca": a.CA, "token_file": a.AdminTokenFile})
	}
	ca, err := identity.NewCA(time.Now(), identity.DefaultTrustDomain)
	if err != nil {
		return err
	}
	server, err := ca.IssueServer([]string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 2)}, time.Now(), 24*time.Hour)
	if err != nil {
		return err
	}
	a.ca = ca
	var receipt [32]byte
	rand.Read(receipt[:])
	return errors.Join(
		ca.Save(a.dir()),
		identity.WritePair(file("server.pem"), file("server-key.pem"), server.Certificate, server.PrivateKey.(crypto.Signer)),
		os.WriteFile(file("receipt.key"), []byte(hex.EncodeToString(receipt[:])), 0o600),
		os.WriteFile(a.AdminTokenFile, []byte(rand.Text()), 0o600),
		writeYAML(a.OperatorConfig, map[string]any{"address": a.People, "ca": a.CA, "token_file": a.AdminTokenFile}),
	)
}

func (a *Authority) serve(ctx context.Context) error {
	config := filepath.Join(a.dir(), "authority.yaml")
	for _, verb := range []string{"migrate", "serve"} {
		p, err := Start(Command{Name: filepath.Base(a.dir()), Path: a.opts.program("forgeyard-authority"), Args: []string{verb, "-c", config}, Dir: a.opts.Dir, Detached: a.opts.Detached})
		if err != nil {
			return err
		}
		a.Process = p
		if verb == "migrate" {
			if <-p.gone; p.err != nil {
				return fmt.Errorf("migrate: %w:\n%s", p.err, p.Tail())
			}
		}
	}
	return a.awaitHealthy(ctx)
}

// awaitHealthy asks /readyz until it says yes.
func (a *Authority) awaitHealthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.Ops+"/readyz", nil)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-a.gone:
			return fmt.Errorf("authority ended before it served (%w):\n%s", a.err, a.Tail())
		case <-ctx.Done():
			return fmt.Errorf("authority does not serve: %w:\n%s", ctx.Err(), a.Tail())
		}
	}
}

// freePort finds a port below the range that the kernel gives to outgoing
// connections: it must stay free while its server is being restarted. What is
// below 24,000 is for the Postgres servers of package pgtest.
func freePort() (string, error) {
	var err error
	for range 50 {
		port := strconv.Itoa(24_000 + mrand.N(8_000))
		var ln net.Listener
		if ln, err = net.Listen("tcp", "0.0.0.0:"+port); err == nil {
			return port, ln.Close()
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}

func writeYAML(path string, v any) error {
	text, err := yaml.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}
