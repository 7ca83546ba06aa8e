package main

import (
	"context"
	"crypto"
	"crypto/tls"
	"os"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"time"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/identity"
	"github.com/forgeyard/concurrency/shared/tunnel"
)

func people(t *testing.T, r readyFile) *grpc.ClientConn {
	t.Helper()
	pool, err := identity.LoadPool(r.CA)
	require.NoError(t, err)
	cc, err := grpc.NewClient(r.People, grpc.WithTransportCredentials(credentials.NewTLS(identity.ClientTLS(nil, pool, "localhost"))))
	require.NoError(t, err)
	t.Cleanup(func() { cc.Close() })
	return cc
}

type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}
func (bearer) RequireTransportSecurity() bool { return true }

func secret(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return strings.TrimSpace(string(text))
}

func enrol(t *testing.T, r readyFile, token, name string) (tls.Certificate, error) {
	t.Helper()
	key, csr, err := identity.NewNodeKey(name)
	require.NoError(t, err)
	got, err := pb.NewEnrollmentServiceClient(people(t, r)).Enroll(t.Context(), &pb.EnrollRequest{Token: token, Node: name, CsrDer: csr})
	if err != nil {
		return tls.Certificate{}, err
	}
	require.NotEmpty(t, got.GetCaDer())
	return tls.Certificate{Certificate: got.GetCertificateChainDer(), PrivateKey: crypto.PrivateKey(key)}, nil
}

func TestNodeEnrolsOpensASessionAndAcquires(t *testing.T) {
	t.Parallel()
	r, stop := startDev(t, t.TempDir())
	cert, err := enrol(t, r, secret(t, r.JoinTokenFile), "runner-1")
	require.NoError(t, err)
	pool, err := identity.LoadPool(r.CA)
	require.NoError(t, err)
	tun, err := tunnel.Dial(t.Context(), r.Nodes, identity.ClientTLS(&cert, pool, "localhost"), tunnel.Options{})
	require.NoError(t, err)
	defer tun.Close()
	cc, err := tun.ClientConn()
	require.NoError(t, err)
	defer cc.Close()
	stream, err := pb.NewSessionServiceClient(cc).Open(context.Background())
	require.NoError(t, err)
	ask := func(f *pb.UpFrame) *pb.DownFrame {
		require.NoError(t, stream.Send(&pb.OpenRequest{Frames: []*pb.UpFrame{f}}))
		m, err := stream.Recv()
		require.NoError(t, err)
		require.Len(t, m.GetFrames(), 1)
		return m.GetFrames()[0]
	}
	registered := ask(&pb.UpFrame{Seq: 1, Body: &pb.UpFrame_Register{Register: &pb.Register{
		ProtocolMin: 1, ProtocolMax: 1, Nonce: "n", BootId: "b", Ttl: durationpb.New(2 * time.Second), CommandId: ulid.Make().String(),
	}}}).GetRegistered()
	require.Equal(t, "registered", registered.GetCode(), registered.GetDetail())
	acquired := ask(&pb.UpFrame{Seq: 2, Body: &pb.UpFrame_Command{Command: &pb.Command{
		CommandId: ulid.Make().String(), Session: registered.GetSession(), Nonce: "n",
		Action: &pb.Command_Acquire{Acquire: &pb.Acquire{
			Scope: "acme/environment:prod", Holder: &pb.Holder{Kind: "run", Id: "1"}, LeaseId: ulid.Make().String(),
		}},
	}}}).GetAnswer()
	require.Equal(t, "acquired", acquired.GetCode(), acquired.GetDetail())

	require.NoError(t, stop(), "an open tunnel does not hold up the stop")
	_, err = stream.Recv()
	require.Equal(t, codes.Unavailable, status.Code(err))
}

func TestEnrolmentRefusals(t *testing.T) {
	t.Parallel()
	r, stop := startDev(t, t.TempDir())
	admin := pb.NewConcurrencyServiceClient(people(t, r))
	once, err := admin.CreateJoinToken(t.Context(), &pb.CreateJoinTokenRequest{Tenants: []string{"beta"}},
		grpc.PerRPCCredentials(bearer(secret(t, r.AdminTokenFile))))
	require.NoError(t, err)

	_, err = enrol(t, r, once.GetToken(), "Not_A_Name")
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.ErrorContains(t, err, "Not_A_Name")
	_, err = pb.NewEnrollmentServiceClient(people(t, r)).Enroll(t.Context(), &pb.EnrollRequest{Token: once.GetToken(), Node: "runner-2", CsrDer: []byte("no")})
	require.Equal(t, codes.InvalidArgument, status.Code(err), "a bad request does not spend the token")

	cert, err := enrol(t, r, once.GetToken(), "runner-2")
	require.NoError(t, err)
	leaf, err := tls.X509KeyPair(identity.EncodeCertificates(cert.Certificate), keyPEM(t, cert))
	require.NoError(t, err)
	n, err := identity.NodeOf(leaf.Leaf, identity.DefaultTrustDomain)
	require.NoError(t, err)
	require.Equal(t, identity.Node{Name: "runner-2", Tenants: []string{"beta"}}, n)

	for _, token := range []string{once.GetToken(), "guess", ""} {
		_, err = enrol(t, r, token, "runner-3")
		require.Equal(t, codes.PermissionDenied, status.Code(err))
		require.ErrorContains(t, err, "join token unknown, spent or expired")
		if token != "" {
			require.NotContains(t, err.Error(), token)
		}
	}
	require.NoError(t, stop())
}

// keyPEM writes the pair as a node does and reads the key back.
func keyPEM(t *testing.T, cert tls.Certificate) []byte {
	t.Helper()
	dir := t.TempDir()
	key, ok := cert.PrivateKey.(crypto.Signer)
	require.True(t, ok)
	require.NoError(t, identity.WritePair(dir+"/c.pem", dir+"/k.pem", cert.Certificate, key))
	text, err := os.ReadFile(dir + "/k.pem")
	require.NoError(t, err)
	return text
}
