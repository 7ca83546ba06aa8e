package tunnel_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/forgeyard/concurrency/shared/identity"
	"github.com/forgeyard/concurrency/shared/tunnel"
	"github.com/forgeyard/concurrency/shared/tunnel/tunneltest"
)

// quick notices a dead peer within 300 ms.
var quick = tunnel.Options{KeepAlive: 100 * time.Millisecond, WriteTimeout: 200 * time.Millisecond}

// ended fails when a tunnel outlives what it promises by far.
func ended(t *testing.T, tun *tunnel.Tunnel) {
	t.Helper()
	select {
	case <-tun.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the tunnel outlived its peer")
	}
}

func TestAPeerThatResetsIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var outer net.Conn
	opts := tunnel.Options{KeepAlive: time.Hour, WriteTimeout: time.Hour} // no probe may be what notices
	pair := tunneltest.Connect(t, tunneltest.NewPKI(t), node, opts, func(addr string) string {
		return forward(t, addr, func(in net.Conn) { mu.Lock(); outer = in; mu.Unlock() })
	})
	mu.Lock()
	require.NoError(t, outer.(*net.TCPConn).SetLinger(0))
	require.NoError(t, outer.Close()) // RST towards the dialled end
	mu.Unlock()
	ended(t, pair.Dialled)
	ended(t, pair.Accepted)
	require.Error(t, check(t, pair.Dialled))
}

// A peer that closes only its sending half has left: nobody can answer it.
func TestAHalfClosedPeerEndsTheTunnel(t *testing.T) {
	t.Parallel()
	half := make(chan net.Conn, 1)
	pair := tunneltest.Connect(t, tunneltest.NewPKI(t), node, tunnel.Options{KeepAlive: time.Hour, WriteTimeout: time.Hour},
		func(addr string) string { return forward(t, addr, func(in net.Conn) { half <- in }) })
	require.NoError(t, (<-half).(*net.TCPConn).CloseWrite())
	ended(t, pair.Dialled)
}

// A call that runs when the peer vanishes ends with an error within the bound,
// although its own context would wait for ever.
func TestFC20_ACallOnABlackHoleEndsWithTheTunnel(t *testing.T) {
	t.Parallel()
	hole := make(chan struct{})
	pair := tunneltest.Connect(t, tunneltest.NewPKI(t), node, quick, func(addr string) string { return relay(t, addr, hole) })
	serveHealth(t, pair.Accepted)
	require.NoError(t, check(t, pair.Dialled))
	cc, err := pair.Dialled.ClientConn()
	require.NoError(t, err)
	t.Cleanup(func() { cc.Close() })
	stream, err := healthpb.NewHealthClient(cc).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	close(hole)
	_, err = stream.Recv()
	require.Error(t, err)
	ended(t, pair.Dialled)
}

func TestAcceptGivesUpOnAClientThatNeverSpeaks(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln := tls.NewListener(inner, identity.ServerTLS(pki.Server, pki.CA.Pool(), true))
	t.Cleanup(func() { ln.Close() })
	silent, err := net.Dial("tcp", inner.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { silent.Close() })
	conn, err := ln.Accept()
	require.NoError(t, err)
	_, err = tunnel.Accept(t.Context(), conn, tunnel.Options{HandshakeTimeout: 50 * time.Millisecond})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = silent.Read(make([]byte, 1))
	require.Error(t, err, "the connection must not be left open")
}

func TestAcceptRefusesWhatIsNotTLS(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	_, err := tunnel.Accept(t.Context(), ours, tunnel.Options{})
	require.ErrorContains(t, err, "not a TLS connection")
	_, err = theirs.Read(make([]byte, 1))
	require.Error(t, err, "the connection must not be left open")
}

func TestAnAuthorityOfAnotherCAIsRefused(t *testing.T) {
	t.Parallel()
	ours, theirs := tunneltest.NewPKI(t), tunneltest.NewPKI(t)
	addr := serveTLS(t, theirs, true)
	cert := ours.Node(t, node)
	_, err := tunnel.Dial(t.Context(), addr, identity.ClientTLS(&cert, ours.CA.Pool(), "localhost"), tunnel.Options{})
	var unknown *tls.CertificateVerificationError
	require.ErrorAs(t, err, &unknown)
}

func TestAnAuthorityOfAnotherNameIsRefused(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	cert := pki.Node(t, node)
	_, err := tunnel.Dial(t.Context(), serveTLS(t, pki, true), identity.ClientTLS(&cert, pki.CA.Pool(), "elsewhere"), tunnel.Options{})
	require.ErrorContains(t, err, "elsewhere")
}

func TestAcceptRefusesAPeerWithoutACertificate(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln := tls.NewListener(inner, identity.ServerTLS(pki.Server, pki.CA.Pool(), false))
	t.Cleanup(func() { ln.Close() })
	go tunnel.Dial(t.Context(), inner.Addr().String(), identity.ClientTLS(nil, pki.CA.Pool(), "localhost"), quick)
	conn, err := ln.Accept()
	require.NoError(t, err)
	_, err = tunnel.Accept(t.Context(), conn, tunnel.Options{})
	require.ErrorIs(t, err, tunnel.ErrNoCertificate)
}

func TestDialEndsWithItsContext(t *testing.T) {
	t.Parallel()
	pki := tunneltest.NewPKI(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { silent.Close() })
	cert := pki.Node(t, node)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no longer needed"))
	_, err = tunnel.Dial(ctx, silent.Addr().String(), identity.ClientTLS(&cert, pki.CA.Pool(), "localhost"), tunnel.Options{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestManyStreamsShareOneTunnel(t *testing.T) {
	t.Parallel()
	pair := tunneltest.Connect(t, tunneltest.NewPKI(t), node, tunnel.Options{}, nil)
	serveHealth(t, pair.Dialled)
	serveHealth(t, pair.Accepted)
	var calls sync.WaitGroup
	results := make(chan error, 64)
	for _, tun := range []*tunnel.Tunnel{pair.Dialled, pair.Accepted} {
		cc, err := tun.ClientConn()
		require.NoError(t, err)
		t.Cleanup(func() { cc.Close() })
		for range 32 {
			calls.Go(func() { results <- ask(t.Context(), cc) })
		}
	}
	calls.Wait()
	for range cap(results) {
		require.NoError(t, <-results)
	}
}

func ask(ctx context.Context, cc *grpc.ClientConn) error {
	_, err := healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{})
	return err
}

// serveTLS runs handshakes on loopback and returns the address.
func serveTLS(t *testing.T, pki tunneltest.PKI, requireClient bool) string {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln := tls.NewListener(inner, identity.ServerTLS(pki.Server, pki.CA.Pool(), requireClient))
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				if tun, err := tunnel.Accept(context.Background(), conn, quick); err == nil {
					<-tun.Done()
				}
			}()
		}
	}()
	return inner.Addr().String()
}

// forward relays one connection and hands its dialled side to seen.
func forward(t *testing.T, to string, seen func(in net.Conn)) string {
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
		seen(in)
		open := make(chan struct{}) // never closed: everything is passed on
		go func() { pump(in, out, open); out.Close() }()
		pump(out, in, open)
		in.Close()
	}()
	return ln.Addr().String()
}
