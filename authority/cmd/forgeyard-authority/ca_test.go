package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/identity"
	"github.com/forgeyard/concurrency/shared/tunnel"
)

func ca(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), append([]string{"ca"}, args...), nil, &out)
	return out.String(), err
}

// dialled is a node at the end of its tunnel.
type dialled struct {
	t      *testing.T
	tunnel *tunnel.Tunnel
	calls  pb.SessionServiceClient
}

func dial(t *testing.T, r readyFile, cert tls.Certificate, pool *x509.CertPool) (*dialled, error) {
	t.Helper()
	tun, err := tunnel.Dial(t.Context(), r.Nodes, identity.ClientTLS(&cert, pool, "localhost"), tunnel.Options{})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { tun.Close() })
	cc, err := tun.ClientConn()
	require.NoError(t, err)
	t.Cleanup(func() { cc.Close() })
	return &dialled{t: t, tunnel: tun, calls: pb.NewSessionServiceClient(cc)}, nil
}

// register returns the answer, or the connection's end.
func (d *dialled) register() (*pb.Registered, error) {
	stream, err := d.calls.Open(context.Background())
	if err != nil {
		return nil, err
	}
	_ = stream.Send(&pb.OpenRequest{Frames: []*pb.UpFrame{{Seq: 1, Body: &pb.UpFrame_Register{Register: &pb.Register{
		ProtocolMin: 1, ProtocolMax: 1, Nonce: "n", BootId: "b", Ttl: durationpb.New(2 * time.Second), CommandId: ulid.Make().String(),
	}}}}}) // Recv tells
	m, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	return m.GetFrames()[0].GetRegistered(), nil
}

func (d *dialled) renew(name string) (tls.Certificate, *x509.CertPool) {
	key, csr, err := identity.NewNodeKey(name)
	require.NoError(d.t, err)
	got, err := d.calls.RenewCertificate(d.t.Context(), &pb.RenewCertificateRequest{CsrDer: csr})
	require.NoError(d.t, err)
	pool := x509.NewCertPool()
	for _, der := range got.GetCaDer() {
		root, err := x509.ParseCertificate(der)
		require.NoError(d.t, err)
		pool.AddCert(root)
	}
	return tls.Certificate{Certificate: got.GetCertificateChainDer(), PrivateKey: key}, pool
}

func TestOneCAFollowsAnotherWithoutLockingANodeOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, stop := startDev(t, dir)
	old, err := enrol(t, r, secret(t, r.JoinTokenFile), "runner-1")
	require.NoError(t, err)
	formerPool, err := identity.LoadPool(r.CA)
	require.NoError(t, err)
	require.NoError(t, stop())

	_, err = ca(t, "retire", "--data-dir", dir)
	require.ErrorContains(t, err, "no former CA")
	out, err := ca(t, "rotate", "--data-dir", dir)
	require.NoError(t, err)
	require.Regexp(t, `(?m)^issues   [0-9a-f]{40}  until 20\d\d-\d\d-\d\d\ntrusted  [0-9a-f]{40}  until`, out)
	_, err = ca(t, "rotate", "--data-dir", dir)
	require.ErrorContains(t, err, "a rotation is under way")
	_, err = ca(t, "retire", "--data-dir", dir)
	require.ErrorContains(t, err, "remove those that are gone): runner-1")

	// A node that knows the former CA only gets in, is asked to renew, and
	// learns of both.
	r, stop = startDev(t, dir)
	node, err := dial(t, r, old, formerPool)
	require.NoError(t, err, "the server still shows a certificate that it trusts")
	answer, err := node.register()
	require.NoError(t, err)
	require.Equal(t, "registered", answer.GetCode(), answer.GetDetail())
	require.True(t, answer.GetRenewCertificate())
	fresh, bothPool := node.renew("runner-1")
	_, err = ca(t, "retire", "--data-dir", dir)
	require.ErrorContains(t, err, "stop the authority first")
	node.tunnel.Close()
	node, err = dial(t, r, fresh, bothPool)
	require.NoError(t, err)
	answer, err = node.register()
	require.NoError(t, err)
	require.Equal(t, "resumed", answer.GetCode(), "the same process with a new certificate")
	require.False(t, answer.GetRenewCertificate())
	require.NoError(t, stop())

	// Now the former one can go, the server's own certificate with it.
	_, err = ca(t, "retire", "--data-dir", dir)
	require.NoError(t, err)
	out, err = ca(t, "show", "--data-dir", dir)
	require.NoError(t, err)
	require.NotContains(t, out, "trusted")
	r, stop = startDev(t, dir)
	node, err = dial(t, r, fresh, bothPool)
	require.NoError(t, err)
	answer, err = node.register()
	require.NoError(t, err)
	require.Contains(t, []string{"registered", "resumed"}, answer.GetCode())
	_, err = dial(t, r, old, formerPool)
	require.Error(t, err, "the server is of the new CA only")
	if node, err = dial(t, r, old, bothPool); err == nil { // TLS 1.3: the refusal comes after the client's handshake
		_, err = node.register()
	}
	require.Error(t, err, "a certificate of the retired CA")
	require.NoError(t, stop())
}

func TestRotationWorksOnAConfigurationAndNamesWhatItNeeds(t *testing.T) {
	t.Parallel()
	path, with := configured(t)
	_, err := ca(t, "rotate", "--config", path)
	require.ErrorContains(t, err, "tls.node_ca_key")
	_, err = ca(t, "rotate")
	require.ErrorContains(t, err, "--config or, for a dev authority, --data-dir")

	dir := filepath.Dir(path)
	for _, sub := range []string{"a", "b"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, sub), 0o700))
	}
	issuing := with("tls:\n", "tls:\n  node_ca_key: "+dir+"/ca-key.pem\n")
	server, err := identity.LoadCA(dir, identity.DefaultTrustDomain)
	require.NoError(t, err)
	before := server.KeyID()
	_, err = ca(t, "rotate", "-c", issuing)
	require.NoError(t, err)
	next, err := identity.LoadCA(dir, identity.DefaultTrustDomain)
	require.NoError(t, err)
	require.NotEqual(t, before, next.KeyID())
	require.Len(t, next.Roots(), 2)
	out, err := ca(t, "retire", "-c", issuing, "--force")
	require.NoError(t, err)
	require.Contains(t, out, "issues   "+next.KeyID())
}
