package uplink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/identity"
)

// Enrolment says how a node gets its first certificate.
type Enrolment struct {
	Node          string
	Dir           string // node.pem and node-key.pem are kept here
	CAFile        string // trusted for the authority's certificate
	PeopleAddress string // of the authority
	TokenFile     string // holds the join token
}

// Certificate returns the node's certificate, enrolling first when there is
// none yet.
func Certificate(ctx context.Context, e Enrolment) (tls.Certificate, error) {
	certFile, keyFile := filepath.Join(e.Dir, "node.pem"), filepath.Join(e.Dir, "node-key.pem")
	if _, err := os.Stat(certFile); err == nil {
		return identity.LoadPair(certFile, keyFile)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return tls.Certificate{}, fmt.Errorf("load certificate: %w", err)
	}
	key, csr, err := identity.NewNodeKey(e.Node)
	if err != nil {
		return tls.Certificate{}, err
	}
	answer, err := e.ask(ctx, csr)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("enrol node %s at %s: %w", e.Node, e.PeopleAddress, err)
	}
	if err := identity.WritePair(certFile, keyFile, answer.GetCertificateChainDer(), key); err != nil {
		return tls.Certificate{}, err
	}
	return identity.LoadPair(certFile, keyFile)
}

func (e Enrolment) ask(ctx context.Context, csr []byte) (*pb.EnrollResponse, error) {
	token, err := os.ReadFile(e.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("read join token: %w", err)
	}
	pool, err := identity.LoadPool(e.CAFile)
	if err != nil {
		return nil, err
	}
	cc, err := grpc.NewClient(e.PeopleAddress, grpc.WithTransportCredentials(credentials.NewTLS(identity.ClientTLS(nil, pool, ""))))
	if err != nil {
		return nil, err
	}
	defer cc.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return pb.NewEnrollmentServiceClient(cc).Enroll(ctx, &pb.EnrollRequest{
		Token: strings.TrimSpace(string(token)), Node: e.Node, CsrDer: csr,
	}, grpc.WaitForReady(true))
}
