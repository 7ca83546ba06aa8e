package uplink_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/identity"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/tunnel/tunneltest"
	"github.com/forgeyard/concurrency/sidecar/uplink"
)

// A certificate is renewed over the connection that it is for, and the next
// connection, of the same session, shows the new one.
func TestTheNextConnectionShowsTheRenewedCertificate(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	r := serveReplica(t, pki)
	n := identity.Node{Name: node, Tenants: []string{"acme"}}
	r.issue = func(csr []byte) (*pb.RenewCertificateResponse, error) {
		chain, err := pki.CA.IssueNode(csr, n, time.Now(), time.Hour)
		return &pb.RenewCertificateResponse{CertificateChainDer: chain, CaDer: pki.CA.Roots()}, err
	}
	f := run(t, pki, newRegistrar(), r.addr)
	s := r.register(t, "s1")
	f.connected(s)
	before := receive(t, r.tunnels).Peer()

	key, csr, err := identity.NewNodeKey(node)
	require.NoError(t, err)
	got, err := f.Issue(t.Context(), csr)
	require.NoError(t, err)
	require.Equal(t, pki.CA.Roots(), got.Roots)
	require.Equal(t, pki.Server.Certificate[0], got.Server.Raw, "the roots can be held against the server that named them")
	f.credential.change(func(c *fixed) { c.pair.Certificate, c.pair.PrivateKey = got.Chain, key })

	f.Reregister()
	receive(t, s.gone)
	f.pass()
	f.connected(r.register(t, "s1"))
	after := receive(t, r.tunnels).Peer()
	require.NotEqual(t, before.SerialNumber, after.SerialNumber)
	require.Equal(t, got.Chain[0], after.Raw)
}

func TestARefusedRenewalSaysWhy(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	r := serveReplica(t, pki)
	f := run(t, pki, newRegistrar(), r.addr)
	f.connected(r.register(t, "s1"))
	r.issue = func([]byte) (*pb.RenewCertificateResponse, error) {
		return nil, status.Error(codes.PermissionDenied, "node-revoked: by person:sre")
	}
	_, err := f.Issue(t.Context(), []byte("csr"))
	require.ErrorContains(t, err, "node-revoked: by person:sre")
	r.issue = func([]byte) (*pb.RenewCertificateResponse, error) {
		return nil, status.Error(codes.Unimplemented, "unknown method")
	}
	_, err = f.Issue(t.Context(), []byte("csr"))
	require.ErrorContains(t, err, "the authority issues none")
}

func TestTheAuthorityCanAskForARenewal(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	r := serveReplica(t, pki)
	f := run(t, pki, newRegistrar(), r.addr)
	s := r.next(t)
	s.answer(&pb.DownFrame{Seq: s.frame().GetSeq(), Body: &pb.DownFrame_Registered{Registered: &pb.Registered{
		Code: string(lease.Registered), Session: "s1", Protocol: 1, RenewCertificate: true,
	}}})
	receive(t, f.credential.soon)
	f.connected(s)
}

// What is wrong with the node's own certificate is told, not only the
// handshake's word for it.
func TestAnExpiredCertificateIsTold(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	r := serveReplica(t, pki)
	key, csr, err := identity.NewNodeKey(node)
	require.NoError(t, err)
	chain, err := pki.CA.IssueNode(csr, identity.Node{Name: node, Tenants: []string{"acme"}}, time.Now().Add(-2*time.Hour), time.Hour)
	require.NoError(t, err)
	f := run(t, pki, newRegistrar(), deadAddress(t), r.addr)
	f.credential.change(func(c *fixed) {
		c.pair.Certificate, c.pair.PrivateKey, c.problem = chain, key, "the certificate of node node-a expired on some day"
	})
	for range 4 { // both addresses, twice
		f.pass()
	}
	for range 2 {
		why := receive(t, f.registrar.waiting)
		require.Equal(t, uplink.CertificateExpired, why.Reason)
		require.Equal(t, "the certificate of node node-a expired on some day", why.Detail)
	}
	require.Empty(t, f.registrar.registered)
}
