package tunnel_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/forgeyard/concurrency/shared/identity"
	"github.com/forgeyard/concurrency/shared/tunnel"
	"github.com/forgeyard/concurrency/shared/tunnel/tunneltest"
)

var node = identity.Node{Name: "n1", Tenants: []string{"acme"}}

func serveHealth(t *testing.T, tun *tunnel.Tunnel) {
	t.Helper()
	srv := grpc.NewServer(tunnel.ServerOptions()...)
	healthpb.RegisterHealthServer(srv, health.NewServer())
	go srv.Serve(tun.Listener())
	t.Cleanup(srv.Stop)
}

func check(t *testing.T, tun *tunnel.Tunnel) error {
	t.Helper()
	cc, err := tun.ClientConn()
	require.NoError(t, err)
	t.Cleanup(func() { cc.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err = healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{})
	return err
}

func TestBothEndsCallEachOtherOnOneConnection(t *testing.T) {
	t.Parallel()
	pair := tunneltest.Connect(t, tunneltest.NewPKI(t), node, tunnel.Options{}, nil)
	serveHealth(t, pair.Dialled)
	serveHealth(t, pair.Accepted)
	require.NoError(t, check(t, pair.Dialled))
	require.NoError(t, check(t, pair.Accepted))
	got, err := identity.NodeOf(pair.Accepted.Peer(), identity.DefaultTrustDomain)
	require.NoError(t, err)
	require.Equal(t, node, got)
}

func TestCloseOfOneEndEndsTheOther(t *testing.T) {
	t.Parallel()
	pair := tunneltest.Connect(t, tunneltest.NewPKI(t), node, tunnel.Options{}, nil)
	require.NoError(t, pair.Dialled.Close())
	require.NoError(t, pair.Dialled.Close())
	<-pair.Accepted.Done()
	require.Error(t, check(t, pair.Accepted))
}

func TestAPeerThatStopsAnsweringIsNoticed(t *testing.T) {
	t.Parallel()
	hole := make(chan struct{})
	opts := tunnel.Options{KeepAlive: 100 * time.Millisecond, WriteTimeout: 200 * time.Millisecond}
	pair := tunneltest.Connect(t, tunneltest.NewPKI(t), node, opts, func(addr string) string { return relay(t, addr, hole) })
	close(hole) // from here on bytes vanish, nothing is refused (FC-20)
	<-pair.Dialled.Done()
	<-pair.Accepted.Done()
}

func TestAStrangerIsRefused(t *testing.T) {
	t.Parallel()
	ours, theirs := tunneltest.NewPKI(t), tunneltest.NewPKI(t)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln := tls.NewListener(inner, identity.ServerTLS(ours.Server, ours.CA.Pool(), true))
	t.Cleanup(func() { ln.Close() })
	refused := make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err == nil {
			_, err = tunnel.Accept(context.Background(), conn, tunnel.Options{})
		}
		refused <- err
	}()
	cert := theirs.Node(t, node)
	tun, err := tunnel.Dial(t.Context(), inner.Addr().String(), identity.ClientTLS(&cert, ours.CA.Pool(), "localhost"), tunnel.Options{})
	if err == nil { // TLS 1.3: the client learns of the refusal on its first read
		<-tun.Done()
	}
	require.Error(t, <-refused)
}

func TestAPeerThatNeverSpeaksTimesOut(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	pki := tunneltest.NewPKI(t)
	cert := pki.Node(t, node)
	_, err = tunnel.Dial(t.Context(), ln.Addr().String(), identity.ClientTLS(&cert, pki.CA.Pool(), "localhost"),
		tunnel.Options{HandshakeTimeout: 50 * time.Millisecond})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// relay forwards until hole is closed, then reads and drops.
func relay(t *testing.T, to string, hole <-chan struct{}) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	go func() {
		in, err := ln.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", to)
		if err != nil {
			in.Close()
			return
		}
		t.Cleanup(func() { in.Close(); out.Close() })
		go pump(in, out, hole)
		pump(out, in, hole)
	}()
	return ln.Addr().String()
}

func pump(from, to net.Conn, hole <-chan struct{}) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		select {
		case <-hole:
			continue
		default:
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
