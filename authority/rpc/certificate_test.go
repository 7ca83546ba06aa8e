package rpc_test

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/identity"
)

// renew asks for a certificate of name over the sidecar's own connection.
func (s *sidecar) renew(name string) (*pb.RenewCertificateResponse, error) {
	s.t.Helper()
	_, csr, err := identity.NewNodeKey(name)
	require.NoError(s.t, err)
	return pb.NewSessionServiceClient(s.conn()).RenewCertificate(s.t.Context(), &pb.RenewCertificateRequest{CsrDer: csr})
}

func TestI10_ARenewedCertificateIsOfTheIdentityThatAskedWhateverTheRequestNames(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.join("node-a", "acme", "beta")
	got, err := a.renew("node-b")
	require.NoError(t, err)
	require.Equal(t, b.ca.Roots(), got.GetCaDer())
	cert, err := x509.ParseCertificate(got.GetCertificateChainDer()[0])
	require.NoError(t, err)
	n, err := identity.NodeOf(cert, identity.DefaultTrustDomain)
	require.NoError(t, err)
	require.Equal(t, identity.Node{Name: "node-a", Tenants: []string{"acme", "beta"}}, n)

	_, err = pb.NewSessionServiceClient(a.conn()).RenewCertificate(t.Context(), &pb.RenewCertificateRequest{CsrDer: []byte("nonsense")})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
}

// A connection is worth no longer than the certificate that opened it.
func TestAConnectionEndsWithTheCertificateThatOpenedIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.join("node-a", "acme")
	require.Equal(t, "renewed", a.beat().GetCode())
	b.clock.Advance(2 * time.Hour)
	_, err := a.renew("node-a")
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	require.ErrorContains(t, err, "certificate-expired: the certificate of node node-a ended on")
	a.send(&pb.UpFrame{Body: &pb.UpFrame_Heartbeat{Heartbeat: &pb.Heartbeat{Session: a.session, Nonce: a.nonce}}})
	_, err = a.stream.Recv()
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	require.ErrorContains(t, err, "it must be enrolled again")
}
