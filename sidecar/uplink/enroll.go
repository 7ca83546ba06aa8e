package uplink

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/identity"
	"github.com/forgeyard/concurrency/sidecar/credential"
)

// issueTimeout bounds one question for a certificate.
const issueTimeout = 10 * time.Second

// Enrolment asks for a node's first certificate with a join token.
type Enrolment struct {
	Node          string
	CAFile        string // trusted for the authority's certificate
	PeopleAddress string // of the authority
	TokenFile     string // holds the join token
}

var _ credential.Issuer = Enrolment{}

// Issue implements credential.Issuer.
func (e Enrolment) Issue(ctx context.Context, csrDER []byte) (credential.Issued, error) {
	answer, err := e.ask(ctx, csrDER)
	if err != nil {
		return credential.Issued{}, fmt.Errorf("enrol node %s at %s: %w", e.Node, e.PeopleAddress, err)
	}
	return credential.Issued{Chain: answer.GetCertificateChainDer(), Roots: answer.GetCaDer()}, nil
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
	ctx, cancel := context.WithTimeout(ctx, issueTimeout)
	defer cancel()
	return pb.NewEnrollmentServiceClient(cc).Enroll(ctx, &pb.EnrollRequest{
		Token: strings.TrimSpace(string(token)), Node: e.Node, CsrDer: csr,
	}, grpc.WaitForReady(true))
}

var _ credential.Issuer = (*Uplink)(nil)

var errNoRenewal = errors.New("renew certificate: the authority issues none: it has no node CA key, or is of an earlier version")

// Issue implements credential.Issuer: it renews over the present connection,
// waiting for one when there is none.
func (u *Uplink) Issue(ctx context.Context, csrDER []byte) (credential.Issued, error) {
	c, err := u.connection(ctx, true)
	if err != nil {
		return credential.Issued{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, issueTimeout)
	defer cancel()
	answer, err := c.calls.RenewCertificate(ctx, &pb.RenewCertificateRequest{CsrDer: csrDER})
	if status.Code(err) == codes.Unimplemented {
		return credential.Issued{}, errNoRenewal
	}
	if err != nil {
		return credential.Issued{}, fmt.Errorf("renew certificate: %w", err)
	}
	return credential.Issued{Chain: answer.GetCertificateChainDer(), Roots: answer.GetCaDer(), Server: c.server}, nil
}
