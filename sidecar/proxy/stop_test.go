package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/sidecar/ownership"
	"github.com/forgeyard/concurrency/sidecar/proxy"
)

// TestFC64_ServeReturnsWhenEveryEffectHasItsOutcome: the journal is closed
// after it, and must miss nothing.
func TestFC64_ServeReturnsWhenEveryEffectHasItsOutcome(t *testing.T) {
	t.Parallel()
	accepted := make(chan struct{})
	up := listen(t, func(_ int64, c *net.TCPConn) {
		close(accepted)
		io.Copy(io.Discard, c) // it never answers
	})
	b := setup(t, up.addr, options{})
	require.Eventually(t, func() bool { return b.proxy.Address() == b.addr }, 10*time.Second, time.Millisecond)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	served, called := make(chan error, 1), make(chan struct{})
	go func() { served <- b.proxy.Serve(ctx, l) }()
	require.Eventually(t, func() bool { return b.proxy.Address() == b.addr }, 10*time.Second, time.Millisecond)
	go func() {
		defer close(called)
		req, _ := http.NewRequestWithContext(t.Context(), "PUT", b.url("/x"), strings.NewReader("body"))
		if resp, err := b.client.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	<-accepted
	cancel()
	require.NoError(t, <-served)
	open, unknown := b.journal.Counts("L1")
	require.Zero(t, open)
	require.Equal(t, 1, unknown)
	require.Zero(t, b.gate.InFlight(b.hold.Term.Key))
	<-called
}

// TestI5_FC21_TheDeadlineCutsWithoutTheKeeper: nobody publishes or cuts; the
// kernel holds bytes that the provider has not taken.
func TestI5_FC21_TheDeadlineCutsWithoutTheKeeper(t *testing.T) {
	t.Parallel()
	accepted := make(chan *net.TCPConn, 1)
	up := listen(t, func(_ int64, c *net.TCPConn) { accepted <- c })
	b := setup(t, up.addr, options{})
	deadline := clock.System().Boot().Add(400 * time.Millisecond)
	b.publish(func(x *ownership.Term) { x.UncertainAt, x.Deadline = deadline, deadline })
	resp, text := b.send("PUT", "/big", strings.Repeat("x", 8<<20))
	b.refused(resp, text, "outcome-unknown")
	require.GreaterOrEqual(t, clock.System().Boot(), deadline)
	_, err := io.Copy(io.Discard, <-accepted)
	require.Error(t, err, "reset, not closed in order")
	require.Equal(t, effect.Unknown, b.settled().State)
}

// TestFC65_ACutEndsASlowUpload: a caller that sends slowly keeps nothing in
// flight once the hold is cut.
func TestFC65_ACutEndsASlowUpload(t *testing.T) {
	t.Parallel()
	up := record(t, nil)
	b := setup(t, up.addr, options{})
	conn, err := net.Dial("tcp", b.addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 100\r\n\r\nhalf", b.path("/x"), b.addr)
	require.Eventually(t, func() bool { return b.gate.InFlight(b.hold.Term.Key) == 1 }, 10*time.Second, time.Millisecond)
	b.publish(func(x *ownership.Term) { x.State, x.Reason = ownership.Lost, ownership.Revoked })
	b.gate.Cut(b.hold.Term.Key)
	<-b.gate.Idle(b.hold.Term.Key)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	b.refused(resp, string(text), "lost")
	up.nothing(t)
}

// TestAnAnswerAfterTheLossIsPassedOnAndSaysSo: it came before the hard
// deadline, so it is recorded; the caller learns that it is not owner any more.
func TestAnAnswerAfterTheLossIsPassedOnAndSaysSo(t *testing.T) {
	t.Parallel()
	var b *bench
	up := record(t, func(w http.ResponseWriter, _ *http.Request) {
		b.publish(func(x *ownership.Term) { x.State, x.Reason = ownership.Uncertain, ownership.AuthorityUnreachable })
		fmt.Fprint(w, "done")
	})
	b = setup(t, up.addr, options{})
	resp, text := b.send("PUT", "/x", "body")
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, "done", text)
	require.Equal(t, "uncertain", resp.Header.Get(proxy.HeaderOwnership))
	require.Equal(t, effect.Succeeded, b.settled().State)
}

// TestTrap07_InterimAnswersStayHere: they keep hop-by-hop headers.
func TestTrap07_InterimAnswersStayHere(t *testing.T) {
	t.Parallel()
	up := listen(t, func(_ int64, c *net.TCPConn) {
		in := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			io.Copy(io.Discard, req.Body)
			fmt.Fprint(c, "HTTP/1.1 103 Early Hints\r\nConnection: X-Secret\r\nX-Secret: s\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	b := setup(t, up.addr, options{})
	for _, method := range []string{"GET", "PUT"} {
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			t.Errorf("%s: %d with %v came through", method, code, h)
			return nil
		}})
		req, err := http.NewRequestWithContext(ctx, method, b.url("/x"), nil)
		require.NoError(t, err)
		resp, err := b.client.Do(req)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, "ok", string(text))
		require.Empty(t, resp.Header.Get("X-Secret"))
	}
}

// TestTrap15_TrailersArrive on both paths.
func TestTrap15_TrailersArrive(t *testing.T) {
	t.Parallel()
	up := record(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "part")
		http.NewResponseController(w).Flush()
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	b := setup(t, up.addr, options{})
	for _, method := range []string{"GET", "PUT"} {
		resp, text := b.send(method, "/x", "")
		require.Equal(t, "part", text)
		require.Equal(t, "0", resp.Trailer.Get("Grpc-Status"), method)
	}
}

// TestTheKeyDoesNotReachTheProviderInAHeader: clients repeat the URL that they
// called.
func TestTheKeyDoesNotReachTheProviderInAHeader(t *testing.T) {
	t.Parallel()
	up := record(t, nil)
	b := setup(t, up.addr, options{})
	for _, method := range []string{"GET", "PUT"} {
		resp, _ := b.send(method, "/x", "", "Referer", b.url("/before"), "Idempotency-Key", "k-"+method, "Connection", "Idempotency-Key")
		require.Equal(t, 200, resp.StatusCode)
		got := <-up.got
		require.Empty(t, got.header["Referer"])
		if method == "PUT" {
			require.Equal(t, "k-PUT", got.header.Get("Idempotency-Key"), "Connection cannot take it away")
		}
		resp, text := b.send(method, "/x", "", "Destination", b.url("/after"))
		b.refused(resp, text, "bad-request")
		require.Contains(t, text, "header Destination")
		resp, text = b.send(method, "/x?from="+b.hold.Term.Key.Secret(), "")
		b.refused(resp, text, "bad-request")
	}
	up.nothing(t)
}
