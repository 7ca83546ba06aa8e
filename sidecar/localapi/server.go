package localapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/keeper"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// maxBody bounds a request, in bytes.
const maxBody = 1 << 20

// Keeper is what the door needs of the keeper.
type Keeper interface {
	Start(ctx context.Context, r keeper.Request) (ownership.Key, <-chan ownership.Term, error)
	Release(ctx context.Context, key ownership.Key) (ownership.Term, error)
	Settle(ctx context.Context, key ownership.Key) (ownership.Term, error)
	Abandon(key ownership.Key)
	Reattach(ctx context.Context, key ownership.Key, uid uint32, b keeper.Binding) (ownership.Term, error)
	Watch(ctx context.Context, key ownership.Key) (<-chan ownership.Term, error)
	Holds(ctx context.Context) ([]keeper.Held, error)
	Status() keeper.Status
	Resolve(ctx context.Context, key ownership.Key, f keeper.Finding) (lease.Answer, error)
}

// Authority is what reconcilers ask through the door.
type Authority interface {
	Evidence(ctx context.Context, scope string) (keeper.Evidence, error)
	Blocked(ctx context.Context, kinds []string) ([]lease.Record, error)
}

// Effects is what the door needs of the journal.
type Effects interface {
	Effects(scope, state string, limit int) []effect.Effect
	Counts(lease string) (open, unknown int)
	// Reconcile settles an unknown effect by what somebody saw.
	Reconcile(r lease.Resolution)
}

// Config is what a Server needs.
type Config struct {
	Node      string
	Software  string
	Keeper    Keeper
	Effects   Effects
	BaseURLs  func(ownership.Key) map[string]string
	Proxy     func() string // address of the base-URL listener
	Uplink    func() string // address of the connected replica, or empty
	Authority Authority
	Clock     clock.Clock
	Log       *zap.Logger
}

// Server is the door. Use New, then Serve.
type Server struct {
	cfg  Config
	root context.Context // ends with Serve: watches of processes live as long
	hint hint
}

// New returns a Server.
func New(cfg Config) *Server { return &Server{cfg: cfg} }

// Listen makes the socket with mode 0600. A socket that nobody answers is
// removed; a live one is an error.
func Listen(path string) (net.Listener, error) {
	if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
		conn.Close()
		return nil, fmt.Errorf("listen on %s: another process answers there", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove stale socket: %w", err)
	}
	// The mode must hold from the first moment on.
	l, err := listenPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return l, nil
}

// listenPrivate binds under a name in a private directory and renames: between
// bind and chmod nobody else can connect.
func listenPrivate(path string) (net.Listener, error) {
	temp, err := os.MkdirTemp(dirOf(path), ".s")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	inner := temp + "/s"
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: inner, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(inner, 0o600), os.Rename(inner, path)); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func dirOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "."
}

// Serve answers until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.root = ctx
	if err := s.watchRestored(ctx); err != nil {
		return err
	}
	calls := grpc.NewServer(grpc.MaxRecvMsgSize(maxBody))
	svc := &service{s: s}
	pb.RegisterLocalServiceServer(calls, svc)
	json, err := s.json(ctx, svc)
	if err != nil {
		return fmt.Errorf("serve local API: %w", err)
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	srv := &http.Server{
		Handler: split(calls, json), ConnContext: connContext, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10, Protocols: protocols,
		ErrorLog: zap.NewStdLog(s.cfg.Log.Named("localapi")),
	}
	stopped := context.AfterFunc(ctx, func() { srv.Close() }) // streams last as long as we do
	defer stopped()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve local API: %w", err)
	}
	return nil
}

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

// json is the same service for curl.
func (s *Server) json(ctx context.Context, svc *service) (http.Handler, error) {
	mux := runtime.NewServeMux(runtime.WithMarshalerOption(runtime.MIMEWildcard, &runtime.JSONPb{
		MarshalOptions:   protojson.MarshalOptions{UseProtoNames: true},
		UnmarshalOptions: protojson.UnmarshalOptions{DiscardUnknown: false},
	}))
	if err := pb.RegisterLocalServiceHandlerServer(ctx, mux, svc); err != nil {
		return nil, err
	}
	top := http.NewServeMux()
	top.Handle("/", mux)
	top.HandleFunc("GET /v1/watch", svc.watchJSON) // streams are not the gateway's in-process form
	top.HandleFunc("POST /v1/hold", svc.holdJSON)
	top.HandleFunc("GET /v1/blocked", svc.blockedJSON)
	return top, nil
}

// watchRestored watches the processes of holds that a former sidecar granted.
func (s *Server) watchRestored(ctx context.Context) error {
	held, err := s.cfg.Keeper.Holds(ctx)
	if err != nil {
		return fmt.Errorf("serve local API: %w", err)
	}
	for _, h := range held {
		if h.Binding.PID != 0 {
			s.watchProcess(h.Term.Key, h.Binding)
		}
	}
	return nil
}

// watchProcess abandons a hold when its process ends.
func (s *Server) watchProcess(key ownership.Key, b keeper.Binding) {
	go func() {
		if err := awaitExit(s.root, b.PID, b.StartTime); err != nil {
			if s.root.Err() == nil {
				s.cfg.Log.Error("watch process", zap.Int("pid", b.PID), zap.Error(err))
			}
			return
		}
		s.cfg.Keeper.Abandon(key)
	}()
}
