package credential

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/identity"
)

// Issued is what an authority gave for a key.
type Issued struct {
	Chain [][]byte // leaf first
	Roots [][]byte // to trust from now on; none: as before
	// Server is the certificate of the authority that answered, when known:
	// Roots that do not trust it are not taken over.
	Server *x509.Certificate
}

// Issuer asks an authority for the certificate of a key: against a join token,
// or over a connection that an earlier certificate opened.
type Issuer interface {
	Issue(ctx context.Context, csrDER []byte) (Issued, error)
}

// Config says where things are.
type Config struct {
	Node            string
	Dir             string // kept here, when no certificate is given
	CAFile          string // trusted for the authority until it names its roots, and again when written later
	CertificateFile string // given: read anew for each connection
	KeyFile         string
	Clock           clock.Clock
	Log             *zap.Logger
	Metrics         prometheus.Registerer
}

// Credential is safe for concurrent use. Use Open.
type Credential struct {
	cfg     Config
	metrics metrics
	soon    chan struct{}

	mu    sync.Mutex
	pair  tls.Certificate
	roots *x509.CertPool
	dueAt time.Time // of the renewal, jitter included
}

// Open loads the certificate, or gets a first one from enrol when there is
// none yet, or when the one that is there has expired.
func Open(ctx context.Context, cfg Config, enrol Issuer) (*Credential, error) {
	c := &Credential{cfg: cfg, soon: make(chan struct{}, 1)}
	if err := c.load(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if !c.given() {
		if err := c.enrolIfNeeded(ctx, enrol); err != nil {
			return nil, err
		}
	} else if c.pair.Leaf == nil {
		return nil, fmt.Errorf("load certificate %s: %w", cfg.CertificateFile, fs.ErrNotExist)
	}
	c.metrics = newMetrics(cfg.Metrics, c.left)
	return c, nil
}

func (c *Credential) given() bool { return c.cfg.CertificateFile != "" }

func (c *Credential) file() string { return filepath.Join(c.cfg.Dir, "node.pem") }

func (c *Credential) rootsFile() string { return filepath.Join(c.cfg.Dir, "authority-ca.pem") }

func (c *Credential) enrolIfNeeded(ctx context.Context, enrol Issuer) error {
	expired := c.Problem()
	if c.pair.Leaf != nil && expired == "" {
		return nil
	}
	err := c.obtain(ctx, enrol)
	if err != nil && expired != "" {
		return fmt.Errorf("%s; enrol again with a fresh join token: %w", expired, err)
	}
	return err
}

// load reads what is there; fs.ErrNotExist when there is no certificate.
func (c *Credential) load() error {
	pair, err := c.loadPair()
	if err != nil {
		return err
	}
	roots, err := c.loadRoots()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pair.Leaf == nil || !c.pair.Leaf.Equal(pair.Leaf) {
		c.dueAt = dueAt(pair.Leaf)
	}
	c.pair, c.roots = pair, roots
	return nil
}

// loadRoots reads the roots that the authority named, and those of the
// configuration before there are any. A ca_file that was written later counts
// beside them: an operator who moves to another PKI has the last word.
func (c *Credential) loadRoots() (*x509.CertPool, error) {
	named, err := os.Stat(c.rootsFile())
	if c.given() || errors.Is(err, fs.ErrNotExist) {
		return identity.LoadPool(c.cfg.CAFile)
	}
	if err != nil {
		return nil, fmt.Errorf("load roots: %w", err)
	}
	files := []string{c.rootsFile()}
	if configured, err := os.Stat(c.cfg.CAFile); err == nil && configured.ModTime().After(named.ModTime()) {
		files = append(files, c.cfg.CAFile)
	}
	pool := x509.NewCertPool()
	for _, file := range files {
		roots, err := identity.LoadCertificates(file)
		if err != nil {
			return nil, err
		}
		for _, root := range roots {
			pool.AddCert(root)
		}
	}
	return pool, nil
}

// loadPair reads the given pair, or the node's own. Earlier versions kept the
// key in a file beside it.
func (c *Credential) loadPair() (tls.Certificate, error) {
	if c.given() {
		return identity.LoadPair(c.cfg.CertificateFile, c.cfg.KeyFile)
	}
	if _, err := os.Stat(c.file()); err != nil {
		return tls.Certificate{}, fmt.Errorf("load certificate: %w", err)
	}
	pair, err := identity.LoadPair(c.file(), c.file())
	if err == nil {
		return pair, nil
	}
	if older, olderErr := identity.LoadPair(c.file(), filepath.Join(c.cfg.Dir, "node-key.pem")); olderErr == nil {
		return older, nil
	}
	return tls.Certificate{}, err
}

// ClientTLS is the configuration of the next connection, from the files as they
// are now.
func (c *Credential) ClientTLS(serverName string) *tls.Config {
	if err := c.load(); err != nil { // what was read before may still do
		c.cfg.Log.Warn("node certificate cannot be read", zap.String("node", c.cfg.Node), zap.Error(err))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	pair := c.pair
	return identity.ClientTLS(&pair, c.roots, serverName)
}

// Problem says what is wrong with the certificate by this node's clock; it is
// empty while nothing is.
func (c *Credential) Problem() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pair.Leaf == nil || c.cfg.Clock.Now().Before(c.pair.Leaf.NotAfter) {
		return ""
	}
	return fmt.Sprintf("the certificate of node %s expired on %s", c.cfg.Node, c.pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
}

// left is how long the certificate is still valid; negative when it is not.
func (c *Credential) left() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pair.Leaf.NotAfter.Sub(c.cfg.Clock.Now())
}

// obtain makes a key, gets its certificate, and keeps both. Roots come first:
// they trust the authority of before as well.
func (c *Credential) obtain(ctx context.Context, from Issuer) error {
	key, csr, err := identity.NewNodeKey(c.cfg.Node)
	if err != nil {
		return err
	}
	got, err := from.Issue(ctx, csr)
	if err != nil {
		return err
	}
	if err := c.check(got, key); err != nil {
		return fmt.Errorf("check certificate: %w", err)
	}
	if err := c.keepRoots(got); err != nil {
		return err
	}
	if err := identity.WriteIdentity(c.file(), got.Chain, key); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(c.cfg.Dir, "node-key.pem")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove former key: %w", err)
	}
	return c.load()
}

// check takes nothing that this node did not ask for.
func (c *Credential) check(got Issued, key crypto.Signer) error {
	if len(got.Chain) == 0 {
		return errors.New("the answer holds none")
	}
	leaf, err := x509.ParseCertificate(got.Chain[0])
	if err != nil {
		return err
	}
	if public, ok := leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(key.Public()) {
		return errors.New("it is of another key")
	}
	if now := c.cfg.Clock.Now(); !now.Before(leaf.NotAfter) {
		return fmt.Errorf("it ended on %s, and this node's clock says %s", leaf.NotAfter.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	c.mu.Lock()
	former := c.pair.Leaf
	c.mu.Unlock()
	if former != nil && !sameNames(former, leaf) {
		return fmt.Errorf("it is for %v, this node is %v", leaf.URIs, former.URIs)
	}
	return nil
}

// sameNames compares the identities of two certificates.
func sameNames(a, b *x509.Certificate) bool {
	if len(a.URIs) != len(b.URIs) {
		return false
	}
	names := map[string]bool{}
	for _, u := range a.URIs {
		names[u.String()] = true
	}
	for _, u := range b.URIs {
		if !names[u.String()] {
			return false
		}
	}
	return true
}

// keepRoots stores the roots that the authority named. Those that would refuse
// the very authority that sent them are left out: they would lock the node out.
func (c *Credential) keepRoots(got Issued) error {
	if len(got.Roots) == 0 {
		return nil
	}
	pool := x509.NewCertPool()
	for _, der := range got.Roots {
		root, err := x509.ParseCertificate(der)
		if err != nil || !root.IsCA {
			return errors.New("check roots: one is not a CA certificate")
		}
		pool.AddCert(root)
	}
	if got.Server != nil {
		_, err := got.Server.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: c.cfg.Clock.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		if err != nil {
			c.cfg.Log.Warn("roots not taken over: they do not trust the authority that sent them", zap.String("node", c.cfg.Node), zap.Error(err))
			return nil
		}
	}
	return identity.WriteRoots(c.rootsFile(), got.Roots)
}
