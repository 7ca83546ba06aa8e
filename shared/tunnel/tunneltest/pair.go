package tunneltest

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/identity"
	"github.com/forgeyard/concurrency/shared/tunnel"
)

// PKI is a CA with a server certificate for loopback.
type PKI struct {
	CA     *identity.CA
	Server tls.Certificate
}

// NewPKI makes a fresh one.
func NewPKI(t testing.TB) PKI {
	t.Helper()
	ca, err := identity.NewCA(time.Now(), identity.DefaultTrustDomain)
	require.NoError(t, err)
	server, err := ca.IssueServer([]string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}, time.Now(), time.Hour)
	require.NoError(t, err)
	return PKI{CA: ca, Server: server}
}

// Node issues a client certificate.
func (p PKI) Node(t testing.TB, n identity.Node) tls.Certificate {
	t.Helper()
	key, csr, err := identity.NewNodeKey(n.Name)
	require.NoError(t, err)
	chain, err := p.CA.IssueNode(csr, n, time.Now(), time.Hour)
	require.NoError(t, err)
	return tls.Certificate{Certificate: chain, PrivateKey: key}
}

// Pair is both ends of one tunnel: Dialled is the sidecar's end.
type Pair struct {
	Dialled, Accepted *tunnel.Tunnel
}

// Connect makes a pair over loopback; both are closed with the test. via, when
// not nil, wraps the dialled address (a relay of the test).
func Connect(t testing.TB, pki PKI, n identity.Node, opts tunnel.Options, via func(addr string) string) Pair {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln := tls.NewListener(inner, identity.ServerTLS(pki.Server, pki.CA.Pool(), true))
	t.Cleanup(func() { ln.Close() })
	accepted := make(chan *tunnel.Tunnel, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			close(accepted)
			return
		}
		tun, err := tunnel.Accept(context.Background(), conn, opts)
		if err != nil {
			close(accepted)
			return
		}
		accepted <- tun
	}()
	addr := inner.Addr().String()
	if via != nil {
		addr = via(addr)
	}
	cert := pki.Node(t, n)
	dialled, err := tunnel.Dial(t.Context(), addr, identity.ClientTLS(&cert, pki.CA.Pool(), "localhost"), opts)
	require.NoError(t, err)
	other, ok := <-accepted
	require.True(t, ok, "the accepting end refused")
	t.Cleanup(func() { dialled.Close(); other.Close() })
	return Pair{Dialled: dialled, Accepted: other}
}
