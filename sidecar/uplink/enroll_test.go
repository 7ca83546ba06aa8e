package uplink_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/identity"
	"github.com/forgeyard/concurrency/shared/tunnel/tunneltest"
	"github.com/forgeyard/concurrency/sidecar/credential"
	"github.com/forgeyard/concurrency/sidecar/uplink"
)

// enroller issues certificates for one join token.
type enroller struct {
	pb.UnimplementedEnrollmentServiceServer
	ca    *identity.CA
	asked chan *pb.EnrollRequest
}

// Enroll implements pb.EnrollmentServiceServer.
func (e *enroller) Enroll(_ context.Context, r *pb.EnrollRequest) (*pb.EnrollResponse, error) {
	e.asked <- r
	if r.GetToken() != "join-1" {
		return nil, status.Error(codes.PermissionDenied, "no such token")
	}
	chain, err := e.ca.IssueNode(r.GetCsrDer(), identity.Node{Name: r.GetNode(), Tenants: []string{"acme"}}, time.Now(), time.Hour)
	return &pb.EnrollResponse{CertificateChainDer: chain}, err
}

// enrolment is a node that has no certificate yet.
type enrolment struct {
	uplink.Enrolment
	dir string
}

func (e enrolment) open(t *testing.T) (*credential.Credential, error) {
	t.Helper()
	return credential.Open(t.Context(), credential.Config{
		Node: e.Node, Dir: e.dir, CAFile: e.CAFile, Clock: clock.System(), Log: zap.NewNop(), Metrics: prometheus.NewRegistry(),
	}, e.Enrolment)
}

func serveEnrolment(t *testing.T, token string) (*enroller, enrolment) {
	t.Helper()
	pki := tunneltest.NewPKI(t)
	e := &enroller{ca: pki.CA, asked: make(chan *pb.EnrollRequest, 16)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := grpc.NewServer(grpc.Creds(credentials.NewTLS(identity.ServerTLS(pki.Server, pki.CA.Pool(), false))))
	pb.RegisterEnrollmentServiceServer(srv, e)
	go srv.Serve(l)
	t.Cleanup(srv.Stop)
	dir, trusted := t.TempDir(), t.TempDir()
	ca, join := filepath.Join(trusted, "ca.pem"), filepath.Join(trusted, "join-token")
	require.NoError(t, os.WriteFile(ca, identity.EncodeCertificates([][]byte{pki.CA.DER()}), 0o644))
	require.NoError(t, os.WriteFile(join, []byte(token+"\n"), 0o600))
	return e, enrolment{dir: dir, Enrolment: uplink.Enrolment{Node: node, CAFile: ca, PeopleAddress: l.Addr().String(), TokenFile: join}}
}

func TestANodeEnrolsOnceAndItsKeyIsItsOwn(t *testing.T) {
	t.Parallel()
	e, enrolment := serveEnrolment(t, "join-1")
	first, err := enrolment.open(t)
	require.NoError(t, err)
	require.Equal(t, node, receive(t, e.asked).GetNode())
	files, err := os.ReadDir(enrolment.dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
	key, err := os.Stat(filepath.Join(enrolment.dir, "node.pem"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), key.Mode().Perm())

	require.NoError(t, os.Remove(enrolment.TokenFile)) // it is not needed any more
	again, err := enrolment.open(t)
	require.NoError(t, err)
	require.Equal(t, first.ClientTLS("").Certificates[0].Certificate, again.ClientTLS("").Certificates[0].Certificate)
	require.Empty(t, e.asked)
}

// A refused enrolment leaves nothing behind that would stand in the way of the
// next one.
func TestARefusedEnrolmentLeavesNoFiles(t *testing.T) {
	t.Parallel()
	_, enrolment := serveEnrolment(t, "another")
	_, err := enrolment.open(t)
	require.ErrorContains(t, err, "enrol node node-a at "+enrolment.PeopleAddress)
	require.ErrorContains(t, err, "no such token")
	require.NotContains(t, err.Error(), "another", "a token is never in a text")
	files, err := os.ReadDir(enrolment.dir)
	require.NoError(t, err)
	require.Empty(t, files)
}
