package tunnel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/hashicorp/yamux"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Options bound how long a tunnel waits. Zero fields take the defaults.
type Options struct {
	KeepAlive        time.Duration // between probes of an idle peer; default 5 s
	WriteTimeout     time.Duration // for a write or a probe to get through; default 5 s
	HandshakeTimeout time.Duration // for TLS; default 5 s
	Logger           *zap.Logger
}

func (o Options) withDefaults() Options {
	orDefault := func(d *time.Duration) {
		if *d == 0 {
			*d = 5 * time.Second
		}
	}
	orDefault(&o.KeepAlive)
	orDefault(&o.WriteTimeout)
	orDefault(&o.HandshakeTimeout)
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o
}

// ErrNoCertificate says that the peer showed none.
var ErrNoCertificate = errors.New("tunnel: peer has no certificate")

// Tunnel is one live connection.
type Tunnel struct {
	session *yamux.Session
	peer    *x509.Certificate
	remote  net.Addr
}

// Dial connects to addr as the dialling end. The context bounds connecting and
// the handshake, not the life of the tunnel.
func Dial(ctx context.Context, addr string, tlsConfig *tls.Config, opts Options) (*Tunnel, error) {
	opts = opts.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, opts.HandshakeTimeout)
	defer cancel()
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("dial authority: %w", err)
	}
	conn := tls.Client(raw, tlsConfig)
	peer, err := handshake(ctx, conn)
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("dial authority %s: %w", addr, err)
	}
	session, err := yamux.Client(conn, sessionConfig(opts))
	return assemble(conn, session, peer, err)
}

// Accept takes a connection of a TLS listener whose handshake has not run yet.
// On error it closes the connection.
func Accept(ctx context.Context, raw net.Conn, opts Options) (*Tunnel, error) {
	opts = opts.withDefaults()
	conn, ok := raw.(*tls.Conn)
	if !ok {
		raw.Close()
		return nil, errors.New("tunnel: accept: not a TLS connection")
	}
	ctx, cancel := context.WithTimeout(ctx, opts.HandshakeTimeout)
	defer cancel()
	peer, err := handshake(ctx, conn)
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("accept tunnel from %s: %w", raw.RemoteAddr(), err)
	}
	session, err := yamux.Server(conn, sessionConfig(opts))
	return assemble(conn, session, peer, err)
}

func handshake(ctx context.Context, conn *tls.Conn) (*x509.Certificate, error) {
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	chain := conn.ConnectionState().PeerCertificates
	if len(chain) == 0 {
		return nil, ErrNoCertificate
	}
	return chain[0], nil
}

func assemble(conn net.Conn, session *yamux.Session, peer *x509.Certificate, err error) (*Tunnel, error) {
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("start multiplexer: %w", err)
	}
	return &Tunnel{session: session, peer: peer, remote: conn.RemoteAddr()}, nil
}

// sessionConfig keeps the memory of an idle tunnel small: there are thousands
// of them on one authority, each with a few short streams.
func sessionConfig(opts Options) *yamux.Config {
	cfg := yamux.DefaultConfig()
	cfg.AcceptBacklog = 16
	cfg.KeepAliveInterval = opts.KeepAlive
	cfg.ConnectionWriteTimeout = opts.WriteTimeout
	cfg.StreamOpenTimeout = opts.WriteTimeout
	cfg.StreamCloseTimeout = opts.WriteTimeout
	cfg.Logger = zap.NewStdLog(opts.Logger.Named("tunnel").WithOptions(zap.IncreaseLevel(zap.ErrorLevel)))
	cfg.LogOutput = nil
	return cfg
}

// grpcBuffer is the read and write buffer of gRPC on one stream, in bytes.
const grpcBuffer = 4 << 10

// ClientConn speaks gRPC on streams that this end opens. Closing it does not
// close the tunnel.
func (t *Tunnel) ClientConn(opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	opts = append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the tunnel is TLS already
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return t.session.Open() }),
		grpc.WithReadBufferSize(grpcBuffer), grpc.WithWriteBufferSize(grpcBuffer),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(),
	}, opts...)
	cc, err := grpc.NewClient("passthrough:///tunnel", opts...)
	if err != nil {
		return nil, fmt.Errorf("open client on tunnel: %w", err)
	}
	return cc, nil
}

// ServerOptions are what a gRPC server on a tunnel's listener should be made
// with.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ReadBufferSize(grpcBuffer), grpc.WriteBufferSize(grpcBuffer),
	}
}

// Listener yields the streams that the peer opens. Closing it closes the
// tunnel.
func (t *Tunnel) Listener() net.Listener { return listener{t} }

type listener struct{ t *Tunnel }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	stream, err := l.t.session.Accept()
	if errors.Is(err, yamux.ErrSessionShutdown) || errors.Is(err, io.EOF) {
		return nil, net.ErrClosed
	}
	return stream, err
}

// Close implements net.Listener.
func (l listener) Close() error { return l.t.Close() }

// Addr implements net.Listener.
func (l listener) Addr() net.Addr { return l.t.session.Addr() }

// Peer is the verified certificate of the other end.
func (t *Tunnel) Peer() *x509.Certificate { return t.peer }

// RemoteAddr is the address of the other end.
func (t *Tunnel) RemoteAddr() net.Addr { return t.remote }

// Done is closed when the tunnel has ended.
func (t *Tunnel) Done() <-chan struct{} { return t.session.CloseChan() }

// Close ends the tunnel and every stream on it.
func (t *Tunnel) Close() error { return t.session.Close() }
