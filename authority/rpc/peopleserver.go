package rpc

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/forgeyard/concurrency/authority/access"
	"github.com/forgeyard/concurrency/authority/coordinator"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

// Limits of the people's port, in bytes.
const (
	maxHeader = 64 << 10
	maxBody   = 1 << 20
)

// PeopleServer serves gRPC and JSON on one TLS port.
type PeopleServer struct {
	http *http.Server
}

// NewPeopleServer makes the server; cert is its certificate.
func NewPeopleServer(cert tls.Certificate, people *access.People, c *coordinator.Coordinator, log *zap.Logger) (*PeopleServer, error) {
	service := &People{Coordinator: c}
	calls := grpc.NewServer(grpc.MaxRecvMsgSize(maxBody))
	pb.RegisterConcurrencyServiceServer(calls, service)
	pb.RegisterEnrollmentServiceServer(calls, &Enrolment{Coordinator: c})
	json := runtime.NewServeMux(runtime.WithMarshalerOption(runtime.MIMEWildcard, &runtime.JSONPb{
		MarshalOptions: protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true},
	}))
	if err := pb.RegisterConcurrencyServiceHandlerServer(context.Background(), json, service); err != nil {
		return nil, err
	}
	// What a client did wrong in its handshake is his to know.
	errorLog, err := zap.NewStdLogAt(log.Named("people"), zap.DebugLevel)
	if err != nil {
		return nil, err
	}
	return &PeopleServer{http: &http.Server{
		Handler:        authenticated(people, split(calls, json)),
		TLSConfig:      &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13},
		MaxHeaderBytes: maxHeader,
		// A stuck client holds a connection, never a command.
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          errorLog,
	}}, nil
}

// split sends gRPC to the one handler and everything else to the other.
func split(calls *grpc.Server, json http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			calls.ServeHTTP(w, r)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		json.ServeHTTP(w, r)
	})
}

// authenticated puts the person behind the bearer token into the context. The
// services refuse a call without one, each in its own protocol.
func authenticated(people *access.People, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p, err := people.Authenticate(r.Header.Get("Authorization")); err == nil {
			r = r.WithContext(access.WithPerson(r.Context(), p))
		}
		next.ServeHTTP(w, r)
	})
}

// Serve accepts until Close.
func (s *PeopleServer) Serve(l net.Listener) error {
	err := s.http.ServeTLS(l, "", "")
	if err == http.ErrServerClosed {
		return nil
	}
	return err
}

// Close lets running calls end within ctx.
func (s *PeopleServer) Close(ctx context.Context) {
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
}
