package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/forgeyard/concurrency/authority/coordinator"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/identity"
	"github.com/forgeyard/concurrency/shared/tunnel"
)

// maxMessage bounds one message of a sidecar, in bytes.
const maxMessage = 2 << 20

// maxHandshakes bounds the handshakes under way. After an outage everybody comes
// at once: those beyond it are sent away at no cost and come back with jitter,
// instead of all of them being too slow (FC-41).
const maxHandshakes = 256

// NodeServer accepts sidecars: mutual TLS, one tunnel each, SessionService on
// the streams that they open.
type NodeServer struct {
	tls         *tls.Config
	trustDomain string
	tunnels     tunnel.Options
	log         *zap.Logger
	sessions    *Sessions
	grpc        *grpc.Server

	handshakes chan struct{} // one for each under way
	shed       prometheus.Counter

	mu     sync.Mutex
	open   map[*tunnel.Tunnel]struct{}
	closed bool
	done   sync.WaitGroup
}

// NewNodeServer makes a server over sessions. cfg must demand and verify
// client certificates.
func NewNodeServer(cfg *tls.Config, trustDomain string, opts tunnel.Options, sessions *Sessions, reg prometheus.Registerer, log *zap.Logger) *NodeServer {
	options := append(tunnel.ServerOptions(),
		grpc.Creds(peerCredentials{}), grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(16),
		grpc.ConnectionTimeout(10*time.Second))
	s := &NodeServer{
		tls: cfg, trustDomain: trustDomain, tunnels: opts, log: log, sessions: sessions, handshakes: make(chan struct{}, maxHandshakes), shed: newShed(reg),
		grpc: grpc.NewServer(options...), open: map[*tunnel.Tunnel]struct{}{},
	}
	pb.RegisterSessionServiceServer(s.grpc, sessions)
	return s
}

// Serve accepts until the listener is closed.
func (s *NodeServer) Serve(l net.Listener) error {
	for {
		raw, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			var temporary interface{ Temporary() bool }
			if errors.As(err, &temporary) && temporary.Temporary() {
				continue
			}
			return err
		}
		select {
		case s.handshakes <- struct{}{}:
		default:
			raw.Close()
			s.shed.Inc()
			continue
		}
		s.done.Add(1)
		go func() {
			defer s.done.Done()
			s.accept(raw)
		}()
	}
}

// accept gives its place among the handshakes back after its own.
func (s *NodeServer) accept(raw net.Conn) {
	t, err := tunnel.Accept(context.Background(), tls.Server(raw, s.tls), s.tunnels)
	<-s.handshakes
	if err != nil {
		s.log.Info("tunnel refused", zap.Stringer("remote", raw.RemoteAddr()), zap.Error(err))
		return
	}
	defer t.Close()
	node, err := identity.NodeOf(t.Peer(), s.trustDomain)
	if err != nil {
		s.log.Warn("tunnel refused", zap.Stringer("remote", raw.RemoteAddr()), zap.Error(err))
		return
	}
	if !s.add(t) {
		return
	}
	defer s.remove(t)
	r := NewRemote(t)
	defer r.Close()
	s.log.Info("node connected", zap.String("node", node.Name), zap.Stringer("remote", raw.RemoteAddr()))
	_ = s.grpc.Serve(nodeListener{t.Listener(), Peer{Node: node.Name, Tenants: node.Tenants, Certificate: coordinator.CertificateOf(t.Peer()), Remote: r}})
	s.log.Info("node disconnected", zap.String("node", node.Name))
}

func (s *NodeServer) add(t *tunnel.Tunnel) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.open[t] = struct{}{}
	return true
}

func (s *NodeServer) remove(t *tunnel.Tunnel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, t)
}

// Close answers what the streams have asked, within ctx, and closes every
// tunnel. The listener must be closed before.
func (s *NodeServer) Close(ctx context.Context) {
	s.sessions.Drain(ctx)
	s.mu.Lock()
	s.closed = true
	for t := range s.open {
		t.Close()
	}
	s.mu.Unlock()
	s.grpc.Stop()
	s.done.Wait()
}

// nodeListener marks each stream's connection with the node behind it.
type nodeListener struct {
	net.Listener
	peer Peer
}

func (l nodeListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return nodeConn{c, l.peer}, nil
}

type nodeConn struct {
	net.Conn
	peer Peer
}

// peerCredentials hand the node of a nodeConn to the handlers. The tunnel has
// done the cryptography.
type peerCredentials struct{}

var (
	_         credentials.TransportCredentials = peerCredentials{}
	errNoNode                                  = errors.New("rpc: connection is not of a tunnel")
)

type peerAuth struct{ peer Peer }

// AuthType implements credentials.AuthInfo.
func (peerAuth) AuthType() string { return "forgeyard-tunnel" }

// ServerHandshake implements credentials.TransportCredentials.
func (peerCredentials) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	n, ok := c.(nodeConn)
	if !ok {
		return nil, nil, errNoNode
	}
	return n, peerAuth{n.peer}, nil
}

// ClientHandshake implements credentials.TransportCredentials.
func (peerCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errNoNode
}

// Info implements credentials.TransportCredentials.
func (peerCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "forgeyard-tunnel"}
}

// Clone implements credentials.TransportCredentials.
func (c peerCredentials) Clone() credentials.TransportCredentials { return c }

// OverrideServerName implements credentials.TransportCredentials.
func (peerCredentials) OverrideServerName(string) error { return nil }

func peerOf(ctx context.Context) (Peer, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return Peer{}, false
	}
	auth, ok := p.AuthInfo.(peerAuth)
	return auth.peer, ok
}
