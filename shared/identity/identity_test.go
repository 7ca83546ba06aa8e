package identity_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"os"
	"path/filepath"
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
