package authority

import (
	"context"
	"crypto"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/forgeyard/concurrency/authority/access"
	"github.com/forgeyard/concurrency/authority/coordinator"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/identity"
)

// DevTenant is the tenant that dev's join token enrols nodes for.
const DevTenant = "acme"

const (
	devUses  = 10000
	devValid = 30 * 24 * time.Hour
)

// Dev is an authority for one machine: own CA, embedded store, loopback only.
// Everything is made under one directory at the first start and kept.
type Dev struct {
	dir     string
	tenants []string
}

// NewDev prepares dir and completes cfg with what lies there.
func NewDev(dir string, tenants []string, cfg *Config) (*Dev, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	d := &Dev{dir: dir, tenants: tenants}
	if err := cfg.Listen.loopbackOnly(); err != nil {
		return nil, err
	}
	for _, sub := range []string{"", "store", "memory", "pki"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("prepare data directory: %w", err)
		}
	}
	if err := d.certificates(cfg); err != nil {
		return nil, err
	}
	d.store(cfg)
	cfg.ReceiptKeyFile = d.path("pki", "receipt.key")
	receipt := coordinator.RandomBytes()
	if _, err := d.secret(cfg.ReceiptKeyFile, hex.EncodeToString(receipt[:])); err != nil {
		return nil, err
	}
	admin, err := d.secret(d.path("admin.token"), coordinator.NewSecret())
	if err != nil {
		return nil, err
	}
	hash := access.Hash(admin)
	cfg.People.Tokens = append(cfg.People.Tokens, access.Token{
		Name: "dev-admin", SHA256: hex.EncodeToString(hash[:]), Roles: access.Roles(), Tenants: []string{access.AllTenants},
	})
	return d, nil
}

func (l ListenConfig) loopbackOnly() error {
	for path, addr := range map[string]string{"listen.nodes": l.Nodes, "listen.people": l.People, "listen.ops": l.Ops} {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return fmt.Errorf("%s: %q: must be host:port", path, addr)
		}
		if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
			return fmt.Errorf("%s: %q: dev listens on loopback only", path, addr)
		}
	}
	return nil
}

func (d *Dev) path(parts ...string) string {
	return filepath.Join(append([]string{d.dir}, parts...)...)
}

// CompleteDev completes cfg with what a dev authority keeps in dir, for work on
// its files while it is stopped. The server's certificate is not among them:
// each start makes it.
func CompleteDev(dir string, cfg *Config) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	d := &Dev{dir: dir}
	d.store(cfg)
	cfg.TLS.CA, cfg.TLS.NodeCAKey = d.path("pki", "ca.pem"), d.path("pki", "ca-key.pem")
	return nil
}

func (d *Dev) store(cfg *Config) {
	cfg.Store = StoreConfig{
		Kind: StoreSQLite, Path: d.path("store", "authority.db"), MemoryPath: d.path("memory", "outside.db"), MaxConns: cfg.Store.MaxConns,
	}
}

func (d *Dev) certificates(cfg *Config) error {
	pki := d.path("pki")
	cfg.TLS.CA, cfg.TLS.NodeCAKey = d.path("pki", "ca.pem"), d.path("pki", "ca-key.pem")
	cfg.TLS.Certificate, cfg.TLS.Key = d.path("pki", "server.pem"), d.path("pki", "server-key.pem")
	ca, err := identity.LoadCA(pki, cfg.TLS.TrustDomain)
	if errors.Is(err, fs.ErrNotExist) {
		if ca, err = identity.NewCA(time.Now(), cfg.TLS.TrustDomain); err == nil {
			err = ca.Save(pki)
		}
	}
	if err != nil {
		return err
	}
	if d.keepsServer(cfg, ca) {
		return nil
	}
	// A new one at each start: it never expires while in use.
	cert, err := ca.IssueServer([]string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, time.Now(), 365*24*time.Hour)
	if err != nil {
		return err
	}
	key, ok := cert.PrivateKey.(crypto.Signer)
	if !ok {
		return errors.New("make server certificate: key cannot sign")
	}
	return identity.WritePair(cfg.TLS.Certificate, cfg.TLS.Key, cert.Certificate, key)
}

// keepsServer reports whether the server's certificate is left as it is: while
// one CA follows another, nodes that have not renewed trust the former one only,
// whose key is gone.
func (d *Dev) keepsServer(cfg *Config, ca *identity.CA) bool {
	if len(ca.Predecessors()) == 0 {
		return false
	}
	server, err := identity.LoadPair(cfg.TLS.Certificate, cfg.TLS.Key)
	return err == nil && serverOf(server, ca.Pool())
}

// secret returns what the file holds, after writing fresh there when it is
// missing.
func (d *Dev) secret(path, fresh string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, writeAtomically(path, []byte(fresh+"\n"))
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	return strings.TrimSpace(string(text)), nil
}

// ready is what dev writes when it serves.
type ready struct {
	Nodes          string `json:"nodes"`
	People         string `json:"people"`
	Ops            string `json:"ops"`
	CA             string `json:"ca"`
	JoinTokenFile  string `json:"join_token_file"`
	AdminTokenFile string `json:"admin_token_file"`
	OperatorConfig string `json:"operator_config"`
	PID            int    `json:"pid"`
}

// operator is the configuration that the command for people reads.
type operator struct {
	Address   string `yaml:"address"`
	CA        string `yaml:"ca"`
	TokenFile string `yaml:"token_file"`
}

// Announce writes the operator's configuration and then ready.json.
func (d *Dev) Announce(at Addresses) error {
	r := ready{
		Nodes: at.Nodes, People: at.People, Ops: at.Ops, CA: d.path("pki", "ca.pem"), PID: os.Getpid(),
		JoinTokenFile: d.path("join.token"), AdminTokenFile: d.path("admin.token"), OperatorConfig: d.path("operator.yaml"),
	}
	text, err := yaml.Marshal(operator{Address: r.People, CA: r.CA, TokenFile: r.AdminTokenFile})
	if err != nil {
		return err
	}
	if err := writeAtomically(r.OperatorConfig, text); err != nil {
		return err
	}
	if text, err = json.MarshalIndent(r, "", "  "); err != nil {
		return err
	}
	return writeAtomically(d.path("ready.json"), append(text, '\n'))
}

// Withdraw removes ready.json, so that nobody reads an old one.
func (d *Dev) Withdraw() error {
	err := os.Remove(d.path("ready.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// JoinToken makes sure that a valid join token lies in its file: a fresh one
// at each start.
func (d *Dev) JoinToken(ctx context.Context, cfg Config) error {
	s, err := openStore(ctx, cfg, clock.System())
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	defer s.Close()
	text := coordinator.NewSecret()
	err = s.PutJoinToken(ctx, store.JoinToken{
		Hash: access.Hash(text), Tenants: d.tenants, UsesLeft: devUses, ExpiresAt: time.Now().Add(devValid), MadeBy: "dev",
	})
	if err != nil {
		return fmt.Errorf("store join token: %w", err)
	}
	return writeAtomically(d.path("join.token"), []byte(text+"\n"))
}

// writeAtomically writes a private file that readers see whole or not at all.
func writeAtomically(path string, text []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(text)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}
