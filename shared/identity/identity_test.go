package identity_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/identity"
)

func issue(t *testing.T, ca *identity.CA, n identity.Node) *x509.Certificate {
	t.Helper()
	_, csr, err := identity.NewNodeKey(n.Name)
	require.NoError(t, err)
	chain, err := ca.IssueNode(csr, n, time.Now(), time.Hour)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(chain[0])
	require.NoError(t, err)
	return cert
}

func TestNodeSurvivesItsCertificate(t *testing.T) {
	t.Parallel()
	ca, err := identity.NewCA(time.Now(), "forgeyard")
	require.NoError(t, err)
	want := identity.Node{Name: "runner-1", Tenants: []string{"acme", "beta"}}
	cert := issue(t, ca, want)
	_, err = cert.Verify(x509.VerifyOptions{Roots: ca.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	require.NoError(t, err)
	got, err := identity.NodeOf(cert, "forgeyard")
	require.NoError(t, err)
	require.Equal(t, want, got)
	_, err = identity.NodeOf(cert, "elsewhere")
	require.ErrorIs(t, err, identity.ErrNotANode)
}

func TestNodeOfRefusesWhatIsNotExactlyOneNode(t *testing.T) {
	t.Parallel()
	for name, uris := range map[string][]string{
		"no uri":          nil,
		"no tenant":       {"spiffe://forgeyard/node/a"},
		"no node":         {"spiffe://forgeyard/tenant/acme"},
		"two nodes":       {"spiffe://forgeyard/node/a", "spiffe://forgeyard/node/b", "spiffe://forgeyard/tenant/acme"},
		"system tenant":   {"spiffe://forgeyard/node/a", "spiffe://forgeyard/tenant/system"},
		"upper case":      {"spiffe://forgeyard/node/A", "spiffe://forgeyard/tenant/acme"},
		"slash in name":   {"spiffe://forgeyard/node/a/b", "spiffe://forgeyard/tenant/acme"},
		"foreign kind":    {"spiffe://forgeyard/node/a", "spiffe://forgeyard/tenant/acme", "spiffe://forgeyard/role/admin"},
		"foreign scheme":  {"https://forgeyard/node/a", "spiffe://forgeyard/tenant/acme"},
		"another domain":  {"spiffe://forgeyard/node/a", "spiffe://other/tenant/acme"},
		"empty node name": {"spiffe://forgeyard/node/", "spiffe://forgeyard/tenant/acme"},
		"tenant twice":    {"spiffe://forgeyard/node/a", "spiffe://forgeyard/tenant/acme", "spiffe://forgeyard/tenant/acme"},
		"query":           {"spiffe://forgeyard/node/a?x=1", "spiffe://forgeyard/tenant/acme"},
		"empty query":     {"spiffe://forgeyard/node/a?", "spiffe://forgeyard/tenant/acme"},
		"fragment":        {"spiffe://forgeyard/node/a#x", "spiffe://forgeyard/tenant/acme"},
		"user":            {"spiffe://u@forgeyard/node/a", "spiffe://forgeyard/tenant/acme"},
		"port":            {"spiffe://forgeyard:1/node/a", "spiffe://forgeyard/tenant/acme"},
		"escaped slash":   {"spiffe://forgeyard/node%2Fa", "spiffe://forgeyard/tenant/acme"},
		"escaped letter":  {"spiffe://forgeyard/node/%61%2e", "spiffe://forgeyard/tenant/acme"},
		"double slash":    {"spiffe://forgeyard//node/a", "spiffe://forgeyard/tenant/acme"},
		"opaque":          {"spiffe:forgeyard/node/a", "spiffe://forgeyard/tenant/acme"},
		"domain in case":  {"spiffe://Forgeyard/node/a", "spiffe://forgeyard/tenant/acme"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cert := &x509.Certificate{Subject: pkix.Name{CommonName: "x"}}
			for _, raw := range uris {
				u, err := url.Parse(raw)
				require.NoError(t, err)
				cert.URIs = append(cert.URIs, u)
			}
			_, err := identity.NodeOf(cert, "forgeyard")
			require.ErrorIs(t, err, identity.ErrNotANode)
		})
	}
}

func TestCAKeyIsPrivateAndReadable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, err := identity.NewCA(time.Now(), "forgeyard")
	require.NoError(t, err)
	require.NoError(t, ca.Save(dir))
	info, err := os.Stat(filepath.Join(dir, "ca-key.pem"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	again, err := identity.LoadCA(dir, "forgeyard")
	require.NoError(t, err)
	require.Equal(t, ca.DER(), again.DER())
	issue(t, again, identity.Node{Name: "n", Tenants: []string{"acme"}})
}

func TestIssueNodeRefusesABadName(t *testing.T) {
	t.Parallel()
	ca, err := identity.NewCA(time.Now(), "forgeyard")
	require.NoError(t, err)
	_, csr, err := identity.NewNodeKey("n")
	require.NoError(t, err)
	_, err = ca.IssueNode(csr, identity.Node{Name: "../x", Tenants: []string{"acme"}}, time.Now(), time.Hour)
	require.ErrorContains(t, err, `node "../x"`)
}

func TestACertificateNeverOutlivesItsCA(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ca, err := identity.NewCA(start, "forgeyard")
	require.NoError(t, err)
	root, err := x509.ParseCertificate(ca.DER())
	require.NoError(t, err)
	n := identity.Node{Name: "n", Tenants: []string{"acme"}}
	_, csr, err := identity.NewNodeKey(n.Name)
	require.NoError(t, err)

	chain, err := ca.IssueNode(csr, n, root.NotAfter.Add(-time.Hour), 24*time.Hour)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(chain[0])
	require.NoError(t, err)
	require.Equal(t, root.NotAfter, leaf.NotAfter)

	_, err = ca.IssueNode(csr, n, root.NotAfter, time.Hour)
	require.ErrorIs(t, err, identity.ErrExpiredCA)
	_, err = ca.IssueNode(csr, n, start, 0)
	require.ErrorContains(t, err, "validity")
}

func TestAnExpiredCertificateIsRefused(t *testing.T) {
	t.Parallel()
	ca, err := identity.NewCA(time.Now(), "forgeyard")
	require.NoError(t, err)
	cert := issue(t, ca, identity.Node{Name: "n", Tenants: []string{"acme"}})
	_, err = cert.Verify(x509.VerifyOptions{
		Roots: ca.Pool(), CurrentTime: cert.NotAfter.Add(time.Second), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	var invalid x509.CertificateInvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, x509.Expired, invalid.Reason)
}

// A node's certificate must not serve as an authority's.
func TestANodeIsNoServer(t *testing.T) {
	t.Parallel()
	ca, err := identity.NewCA(time.Now(), "forgeyard")
	require.NoError(t, err)
	cert := issue(t, ca, identity.Node{Name: "localhost", Tenants: []string{"acme"}})
	_, err = cert.Verify(x509.VerifyOptions{Roots: ca.Pool(), DNSName: "localhost", KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	require.Error(t, err)
}

func TestARewrittenKeyDoesNotKeepALooseMode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "n.pem"), filepath.Join(dir, "n-key.pem")
	require.NoError(t, os.WriteFile(keyFile, []byte("old"), 0o644))
	ca, err := identity.NewCA(time.Now(), "forgeyard")
	require.NoError(t, err)
	key, csr, err := identity.NewNodeKey("n")
	require.NoError(t, err)
	chain, err := ca.IssueNode(csr, identity.Node{Name: "n", Tenants: []string{"acme"}}, time.Now(), time.Hour)
	require.NoError(t, err)
	require.NoError(t, identity.WritePair(certFile, keyFile, chain, key))
	info, err := os.Stat(keyFile)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	pair, err := identity.LoadPair(certFile, keyFile)
	require.NoError(t, err)
	require.Equal(t, chain, pair.Certificate)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2, "nothing temporary stays")
}

func TestAPairThatDoesNotMatchIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, err := identity.NewCA(time.Now(), "forgeyard")
	require.NoError(t, err)
	require.NoError(t, ca.Save(dir))
	other, _, err := identity.NewNodeKey("n")
	require.NoError(t, err)
	require.NoError(t, identity.WritePair(filepath.Join(dir, "x.pem"), filepath.Join(dir, "ca-key.pem"), [][]byte{ca.DER()}, other))
	require.NoError(t, os.Remove(filepath.Join(dir, "x.pem")))
	_, err = identity.LoadCA(dir, "forgeyard")
	require.ErrorContains(t, err, "ca-key.pem")
}

func TestAnIdentityIsOneFileThatIsReplacedAsAWhole(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "node.pem")
	ca, err := identity.NewCA(time.Now(), "forgeyard")
	require.NoError(t, err)
	for range 2 {
		key, csr, err := identity.NewNodeKey("n")
		require.NoError(t, err)
		chain, err := ca.IssueNode(csr, identity.Node{Name: "n", Tenants: []string{"acme"}}, time.Now(), time.Hour)
		require.NoError(t, err)
		require.NoError(t, identity.WriteIdentity(file, chain, key))
		pair, err := identity.LoadPair(file, file)
		require.NoError(t, err)
		require.Equal(t, chain, pair.Certificate)
		require.Equal(t, key.Public(), pair.Leaf.PublicKey)
	}
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	left, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	require.Len(t, left, 1)
}

func TestTheCAOfTheKeyIssuesAndAllOfTheFileAreTrusted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old, err := identity.NewCA(time.Now(), "forgeyard")
	require.NoError(t, err)
	next, err := identity.NewCA(time.Now(), "forgeyard")
	require.NoError(t, err)
	require.NoError(t, next.Save(dir))
	bundle := filepath.Join(dir, "ca.pem")
	n := identity.Node{Name: "n", Tenants: []string{"acme"}}
	for _, order := range [][][]byte{{next.DER(), old.DER()}, {old.DER(), next.DER()}} {
		require.NoError(t, identity.WriteRoots(bundle, order))
		ca, err := identity.LoadCA(dir, "forgeyard")
		require.NoError(t, err)
		require.Equal(t, next.DER(), ca.DER())
		require.Equal(t, order, ca.Roots())
		require.Equal(t, next.KeyID(), identity.IssuerOf(issue(t, ca, n)))
		for _, of := range []*identity.CA{old, next} {
			_, err := issue(t, of, n).Verify(x509.VerifyOptions{Roots: ca.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
			require.NoError(t, err)
		}
	}
	require.NotEqual(t, next.KeyID(), old.KeyID())
	require.NoError(t, identity.WriteRoots(bundle, old.Roots()))
	_, err = identity.LoadCA(dir, "forgeyard")
	require.ErrorContains(t, err, "no certificate in "+bundle+" is of the key in")
}

func TestACertificateIsRenewedAtTwoThirdsOfItsLife(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ca, err := identity.NewCA(start, "forgeyard")
	require.NoError(t, err)
	_, csr, err := identity.NewNodeKey("n")
	require.NoError(t, err)
	chain, err := ca.IssueNode(csr, identity.Node{Name: "n", Tenants: []string{"acme"}}, start, 30*24*time.Hour)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(chain[0])
	require.NoError(t, err)
	require.Equal(t, start, identity.IssuedAt(cert))
	require.Equal(t, start.Add(20*24*time.Hour), identity.RenewAt(cert))
}

// Root rotates the CA of an authority that runs as somebody else.
func TestTheOwnerOfAReplacedFileIsKept(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	dir := t.TempDir()
	ca, err := identity.NewCA(time.Now(), "forgeyard")
	require.NoError(t, err)
	require.NoError(t, ca.Save(dir))
	for _, name := range []string{"ca.pem", "ca-key.pem"} {
		require.NoError(t, os.Chown(filepath.Join(dir, name), 12345, 54321))
	}
	next, err := ca.Follow(time.Now())
	require.NoError(t, err)
	require.NoError(t, next.Save(dir))
	for _, name := range []string{"ca.pem", "ca-key.pem"} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		owner, ok := info.Sys().(*syscall.Stat_t)
		require.True(t, ok)
		require.Equal(t, []uint32{12345, 54321}, []uint32{owner.Uid, owner.Gid}, name)
	}
}
