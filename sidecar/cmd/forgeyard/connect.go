package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/conffile"
	"github.com/forgeyard/concurrency/shared/identity"
)

// operator is the file that says how to reach the authority.
type operator struct {
	Address   string `config:"address"`    // host:port for people
	CA        string `config:"ca"`         // PEM
	TokenFile string `config:"token_file"` // holds the bearer token
}

func (a *app) operator() (operator, error) {
	var o operator
	if a.config == "" {
		return o, errors.New("no authority is named: give --config or set FORGEYARD_CONFIG to a file with address, ca and token_file")
	}
	if err := conffile.Load(&o, conffile.Sources{Path: a.config}); err != nil {
		return o, err
	}
	var p conffile.Problems
	for path, value := range map[string]string{"address": o.Address, "ca": o.CA, "token_file": o.TokenFile} {
		if value == "" {
			p.Addf(path, "\"\": must not be empty in %s", a.config)
		}
	}
	return o, p.Err()
}

// bearer adds the token to each call; only over TLS.
type bearer string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (bearer) RequireTransportSecurity() bool { return true }

// authority calls f with a client of the authority.
func (a *app) authority(f func(pb.ConcurrencyServiceClient) error) error {
	o, err := a.operator()
	if err != nil {
		return err
	}
	pool, err := identity.LoadPool(o.CA)
	if err != nil {
		return err
	}
	token, err := os.ReadFile(o.TokenFile)
	if err != nil {
		return fmt.Errorf("read token: %w", err)
	}
	host, _, err := net.SplitHostPort(o.Address)
	if err != nil {
		return fmt.Errorf("address %q in %s: must be host:port", o.Address, a.config)
	}
	cc, err := grpc.NewClient("passthrough:///"+o.Address,
		grpc.WithTransportCredentials(credentials.NewTLS(identity.ClientTLS(nil, pool, host))),
		grpc.WithPerRPCCredentials(bearer(strings.TrimSpace(string(token)))))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", o.Address, err)
	}
	defer cc.Close()
	return readable(f(pb.NewConcurrencyServiceClient(cc)), "authority at "+o.Address)
}

// local calls f with a client of this machine's sidecar.
func (a *app) local(f func(pb.LocalServiceClient) error) error {
	socket, err := filepath.Abs(a.socket)
	if err != nil {
		return fmt.Errorf("socket %q: %w", a.socket, err)
	}
	cc, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connect to sidecar: %w", err)
	}
	defer cc.Close()
	return readable(f(pb.NewLocalServiceClient(cc)), "sidecar at "+socket)
}

// readable turns a status into one line for people.
func readable(err error, who string) error {
	if err == nil {
		return nil
	}
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	switch s.Code() {
	case codes.Unavailable, codes.DeadlineExceeded:
		return &exitError{code: exitUnreachable, text: fmt.Sprintf("%s cannot be reached: %s", who, s.Message())}
	case codes.Unauthenticated, codes.PermissionDenied:
		return &exitError{code: exitRefused, text: fmt.Sprintf("%s refuses: %s", who, s.Message())}
	default:
		return errors.New(s.Message())
	}
}
