package credential_test

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/shared/clock/clocktest"
	"github.com/forgeyard/concurrency/shared/identity"
	"github.com/forgeyard/concurrency/sidecar/credential"
)

const (
	day  = 24 * time.Hour
	life = 30 * day
)

// authority issues what a test says.
type authority struct {
	clock *clocktest.Manual
	ca    *identity.CA
	node  identity.Node

	mu     sync.Mutex
	err    error
	change func(*credential.Issued)
	asked  []time.Time
}

// Issue implements credential.Issuer.
func (a *authority) Issue(_ context.Context, csr []byte) (credential.Issued, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, a.clock.Now())
	if a.err != nil {
		return credential.Issued{}, a.err
	}
	chain, err := a.ca.IssueNode(csr, a.node, a.clock.Now(), life)
	got := credential.Issued{Chain: chain, Roots: a.ca.Roots()}
	if a.change != nil {
		a.change(&got)
	}
	return got, err
}

func (a *authority) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
}

func (a *authority) calls() []time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]time.Time{}, a.asked...)
}

// bench is a node that has enrolled.
type bench struct {
	*credential.Credential
	t         *testing.T
	authority *authority
	clock     *clocktest.Manual
	cfg       credential.Config
	reg       *prometheus.Registry
	redialled chan struct{}
}

func setup(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, clock: clocktest.New(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), reg: prometheus.NewRegistry(), redialled: make(chan struct{}, 16)}
	ca, err := identity.NewCA(b.clock.Now(), identity.DefaultTrustDomain)
	require.NoError(t, err)
	b.authority = &authority{clock: b.clock, ca: ca, node: identity.Node{Name: "node-a", Tenants: []string{"acme", "beta"}}}
	trusted := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, identity.WriteRoots(trusted, ca.Roots()))
	b.cfg = credential.Config{Node: "node-a", Dir: t.TempDir(), CAFile: trusted, Clock: b.clock, Log: zap.NewNop(), Metrics: b.reg}
	b.Credential, err = credential.Open(t.Context(), b.cfg, b.authority)
	require.NoError(t, err)
	return b
}

// reopen is another process on the same files.
func (b *bench) reopen() (*credential.Credential, error) {
	cfg := b.cfg
	cfg.Metrics = prometheus.NewRegistry()
	return credential.Open(b.t.Context(), cfg, b.authority)
}

func (b *bench) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx, b.authority, func() { b.redialled <- struct{}{} }) }()
	b.t.Cleanup(func() {
		cancel()
		require.NoError(b.t, <-done)
	})
}

// expires is the metric of that name.
func (b *bench) expires() float64 {
	b.t.Helper()
	families, err := b.reg.Gather()
	require.NoError(b.t, err)
	for _, f := range families {
		if f.GetName() == "forgeyard_sidecar_certificate_expires_seconds" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	require.FailNow(b.t, "no such metric")
	return 0
}

// pass lets time go by in steps; the loop sees each of them.
func (b *bench) pass(d, step time.Duration) {
	for ; d > 0; d -= step {
		b.clock.WaitForTimers(1)
		b.clock.Advance(step)
	}
	b.clock.WaitForTimers(1)
}

func leaf(t *testing.T, c *credential.Credential) *x509.Certificate {
	t.Helper()
	cert, err := x509.ParseCertificate(c.ClientTLS("").Certificates[0].Certificate[0])
	require.NoError(t, err)
	return cert
}

func TestACertificateRenewsItselfAtTwoThirds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := leaf(t, b.Credential)
	b.run()
	b.pass(20*day, time.Hour)
	require.Len(t, b.authority.calls(), 1, "the enrolment")
	require.Empty(t, b.redialled)
	b.pass(day+2*time.Hour, time.Hour) // a tenth of the last third is jitter
	require.Len(t, b.authority.calls(), 2)
	<-b.redialled
	second := leaf(t, b.Credential)
	require.NotEqual(t, first.SerialNumber, second.SerialNumber)
	require.NotEqual(t, first.PublicKey, second.PublicKey, "each certificate has a key of its own")
	n, err := identity.NodeOf(second, identity.DefaultTrustDomain)
	require.NoError(t, err)
	require.Equal(t, b.authority.node, n)

	next, err := b.reopen()
	require.NoError(t, err)
	require.Equal(t, second.SerialNumber, leaf(t, next).SerialNumber, "a restart shows the new one")
	require.Len(t, b.authority.calls(), 2)
	require.InDelta(t, life.Seconds(), b.expires(), (2 * day).Seconds())
}

func TestARenewalThatFailsIsTriedAgainWithBackoff(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.authority.fail(errors.New("away"))
	b.run()
	b.pass(21*day, time.Hour)
	before := len(b.authority.calls())
	require.Greater(t, before, 1)
	b.pass(3*time.Hour, time.Second)
	calls := b.authority.calls()
	for i := before + 1; i < len(calls); i++ {
		gap := calls[i].Sub(calls[i-1])
		require.LessOrEqual(t, gap, 15*time.Minute+time.Second)
		if i > before+8 {
			require.GreaterOrEqual(t, gap, 5*time.Minute)
		}
	}
	require.Greater(t, len(calls), before+10)
	require.Empty(t, b.redialled)
	b.authority.fail(nil)
	b.pass(15*time.Minute+time.Second, time.Second)
	<-b.redialled
	require.Empty(t, b.Problem())
}

func TestTheAuthorityIsFollowedSoonAndNotInARow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.run()
	b.RenewSoon()
	b.pass(50*time.Second, time.Second)
	require.Len(t, b.authority.calls(), 1, "a certificate that is a minute old is new enough")
	b.pass(45*time.Second, time.Second)
	require.Len(t, b.authority.calls(), 2)
	<-b.redialled
}

func TestACertificateOfAnotherNodeIsNotTakenOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	own := leaf(t, b.Credential)
	another := func(n identity.Node) func(*credential.Issued) {
		return func(got *credential.Issued) {
			_, csr, err := identity.NewNodeKey(n.Name)
			require.NoError(t, err)
			got.Chain, err = b.authority.ca.IssueNode(csr, n, b.clock.Now(), life)
			require.NoError(t, err)
		}
	}
	b.run()
	b.authority.change = another(b.authority.node) // of another key
	b.pass(21*day, time.Hour)
	require.Equal(t, own.SerialNumber, leaf(t, b.Credential).SerialNumber)
	b.authority.mu.Lock()
	b.authority.change, b.authority.node.Tenants = nil, []string{"acme", "beta", "umbrella"}
	b.authority.mu.Unlock()
	b.pass(time.Hour, time.Minute)
	require.Equal(t, own.SerialNumber, leaf(t, b.Credential).SerialNumber, "more tenants than it has")
	require.Empty(t, b.redialled)
	next, err := b.reopen()
	require.NoError(t, err)
	require.Equal(t, own.SerialNumber, leaf(t, next).SerialNumber)
}

func TestRootsThatWouldLockTheNodeOutAreNotTakenOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other, err := identity.NewCA(b.clock.Now(), identity.DefaultTrustDomain)
	require.NoError(t, err)
	serve := func(ca *identity.CA) *x509.Certificate {
		pair, err := ca.IssueServer([]string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}, b.clock.Now(), 365*day)
		require.NoError(t, err)
		cert, err := x509.ParseCertificate(pair.Certificate[0])
		require.NoError(t, err)
		return cert
	}
	trusts := func(ca *identity.CA) bool {
		next, err := b.reopen()
		require.NoError(t, err)
		_, err = serve(ca).Verify(x509.VerifyOptions{Roots: next.ClientTLS("localhost").RootCAs, CurrentTime: b.clock.Now()})
		return err == nil
	}
	b.run()
	server := serve(b.authority.ca)
	b.authority.change = func(got *credential.Issued) { got.Roots, got.Server = other.Roots(), server }
	b.pass(22*day, time.Hour)
	<-b.redialled
	require.True(t, trusts(b.authority.ca))
	require.False(t, trusts(other))

	b.authority.mu.Lock()
	b.authority.change = func(got *credential.Issued) {
		got.Roots, got.Server = append(other.Roots(), b.authority.ca.Roots()...), server
	}
	b.authority.mu.Unlock()
	b.pass(22*day, time.Hour)
	<-b.redialled
	require.True(t, trusts(b.authority.ca))
	require.True(t, trusts(other))
}

func TestAnExpiredCertificateIsNamedAndReplaced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.Empty(t, b.Problem())
	b.authority.fail(errors.New("join token unknown, spent or expired"))
	b.clock.Advance(life)
	require.Equal(t, "the certificate of node node-a expired on 2026-01-31T00:00:00Z", b.Problem())
	_, err := b.reopen()
	require.ErrorContains(t, err, "node node-a expired on 2026-01-31T00:00:00Z; enrol again with a fresh join token")
	require.ErrorContains(t, err, "spent or expired")
	b.authority.fail(nil)
	next, err := b.reopen()
	require.NoError(t, err)
	require.Empty(t, next.Problem())
}

// A crash between the two files of earlier versions does not matter any more;
// a node of such a version goes on with its pair.
func TestThePairOfAnEarlierVersionIsReadAndReplaced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, csr, err := identity.NewNodeKey("node-a")
	require.NoError(t, err)
	chain, err := b.authority.ca.IssueNode(csr, b.authority.node, b.clock.Now(), life)
	require.NoError(t, err)
	require.NoError(t, identity.WritePair(filepath.Join(b.cfg.Dir, "node.pem"), filepath.Join(b.cfg.Dir, "node-key.pem"), chain, key))
	b.Credential, err = b.reopen()
	require.NoError(t, err)
	require.Equal(t, chain[0], leaf(t, b.Credential).Raw)
	b.run()
	b.pass(22*day, time.Hour)
	<-b.redialled
	require.NoFileExists(t, filepath.Join(b.cfg.Dir, "node-key.pem"))
	info, err := os.Stat(filepath.Join(b.cfg.Dir, "node.pem"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestAGivenCertificateIsReadAnewAndNeverRenewed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	dir := t.TempDir()
	b.cfg.CertificateFile, b.cfg.KeyFile = filepath.Join(dir, "given.pem"), filepath.Join(dir, "given-key.pem")
	_, err := b.reopen()
	require.Error(t, err)
	give := func() []byte {
		key, csr, err := identity.NewNodeKey("node-a")
		require.NoError(t, err)
		chain, err := b.authority.ca.IssueNode(csr, b.authority.node, b.clock.Now(), life)
		require.NoError(t, err)
		require.NoError(t, identity.WritePair(b.cfg.CertificateFile, b.cfg.KeyFile, chain, key))
		return chain[0]
	}
	give()
	b.Credential, err = b.reopen()
	require.NoError(t, err)
	require.NoError(t, b.Run(t.Context(), b.authority, nil), "there is nothing to run")
	require.Equal(t, give(), leaf(t, b.Credential).Raw)
	require.NoError(t, os.Remove(b.cfg.KeyFile))
	require.NotEmpty(t, leaf(t, b.Credential).Raw, "the former one may still do")
	require.Len(t, b.authority.calls(), 1, "the bench's own")
}

func TestANewerConfiguredCAFileCounts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other, err := identity.NewCA(b.clock.Now(), identity.DefaultTrustDomain)
	require.NoError(t, err)
	server, err := other.IssueServer([]string{"localhost"}, nil, b.clock.Now(), day)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(server.Certificate[0])
	require.NoError(t, err)
	trusts := func() bool {
		_, err := cert.Verify(x509.VerifyOptions{Roots: b.ClientTLS("localhost").RootCAs, CurrentTime: b.clock.Now()})
		return err == nil
	}
	named, err := os.Stat(filepath.Join(b.cfg.Dir, "authority-ca.pem"))
	require.NoError(t, err)
	require.NoError(t, identity.WriteRoots(b.cfg.CAFile, other.Roots()))
	older, newer := named.ModTime().Add(-time.Minute), named.ModTime().Add(time.Minute)
	require.NoError(t, os.Chtimes(b.cfg.CAFile, older, older))
	require.False(t, trusts(), "the authority named its roots since")
	require.NoError(t, os.Chtimes(b.cfg.CAFile, newer, newer))
	require.True(t, trusts(), "the next connection, without a restart")
}
