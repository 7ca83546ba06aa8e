package proxy_test

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/sidecar/proxy"
	"github.com/forgeyard/concurrency/sidecar/route"
)

// TestTrap21_AnswersPassByteForByte: no transparent gzip.
func TestTrap21_AnswersPassByteForByte(t *testing.T) {
	t.Parallel()
	var packed strings.Builder
	z := gzip.NewWriter(&packed)
	fmt.Fprint(z, "plan")
	z.Close()
	up := record(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		fmt.Fprint(w, packed.String())
	})
	b := setup(t, up.addr, options{})
	for _, method := range []string{"GET", "POST"} {
		resp, body := b.send(method, "/x", "")
		require.Equal(t, packed.String(), body)
		require.Equal(t, "gzip", resp.Header.Get("Content-Encoding"))
		require.Empty(t, (<-up.got).header.Get("Accept-Encoding"), "nothing was asked for that the caller did not ask for")
	}
}

// TestTrap22_ARedirectIsPassedOnNotFollowed: 307 would repeat the mutation.
func TestTrap22_ARedirectIsPassedOnNotFollowed(t *testing.T) {
	t.Parallel()
	second := record(t, nil)
	up := record(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+second.addr+"/x", http.StatusTemporaryRedirect)
	})
	b := setup(t, up.addr, options{})
	resp, _ := b.send("POST", "/x", "body")
	require.Equal(t, http.StatusTemporaryRedirect, resp.StatusCode)
	second.nothing(t)
	e := b.settled()
	require.Equal(t, effect.Failed, e.State)
	require.Contains(t, e.Reason, "redirected")
}

// TestTrap25_AnAnswerCutShortIsAbortedNotCompleted: the effect succeeded, the
// caller sees that the body is not whole.
func TestTrap25_AnAnswerCutShortIsAbortedNotCompleted(t *testing.T) {
	t.Parallel()
	up := listen(t, func(_ int64, c *net.TCPConn) {
		http.ReadRequest(bufio.NewReader(c))
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
		c.Close()
	})
	b := setup(t, up.addr, options{})
	req, err := http.NewRequestWithContext(t.Context(), "POST", b.url("/x"), nil)
	require.NoError(t, err)
	resp, err := b.client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, effect.Succeeded, b.settled().State)
}

// TestTrap26_StreamsFlowAtOnce: the caller has the first part before the
// second one exists.
func TestTrap26_StreamsFlowAtOnce(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "POST"} {
		next := make(chan struct{})
		up := record(t, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "first")
			w.(http.Flusher).Flush()
			<-next
			fmt.Fprint(w, "second")
		})
		b := setup(t, up.addr, options{})
		req, err := http.NewRequestWithContext(t.Context(), method, b.url("/watch"), nil)
		require.NoError(t, err)
		resp, err := b.client.Do(req)
		require.NoError(t, err)
		part := make([]byte, 5)
		_, err = io.ReadFull(resp.Body, part)
		require.NoError(t, err)
		close(next)
		rest, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "firstsecond", string(part)+string(rest))
		resp.Body.Close()
	}
}

// TestTrap28_NothingLeadsTheClientAroundTheProxy (and 7): Alt-Svc, our own
// refusal header, hop-by-hop headers, also those of an informational answer.
func TestTrap28_NothingLeadsTheClientAroundTheProxy(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "POST"} {
		up := listen(t, func(_ int64, c *net.TCPConn) {
			http.ReadRequest(bufio.NewReader(c))
			fmt.Fprint(c, "HTTP/1.1 103 Early Hints\r\nConnection: X-Secret\r\nX-Secret: 1\r\nAlt-Svc: h3=\":443\"\r\n\r\n"+
				"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nAlt-Svc: h3=\":443\"\r\nForgeyard-Refusal: lost\r\nFencing-Token: 1\r\n"+
				"Connection: X-Secret\r\nX-Secret: 1\r\nX-Kept: 2\r\n\r\nok")
			c.Close()
		})
		b := setup(t, up.addr, options{})
		conn, err := net.Dial("tcp", b.addr)
		require.NoError(t, err)
		fmt.Fprint(conn, method+" "+b.path("/x")+" HTTP/1.1\r\nHost: "+b.addr+"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		text, err := io.ReadAll(conn)
		require.NoError(t, err)
		conn.Close()
		for _, absent := range []string{"Alt-Svc", "Refusal", "Fencing", "X-Secret", "103"} {
			require.NotContains(t, string(text), absent, method)
		}
		require.Contains(t, string(text), "X-Kept: 2")
	}
}

// TestTrap27_TheHostIsTheProviders and X-Forwarded headers are not added.
func TestTrap27_TheHostIsTheProviders(t *testing.T) {
	t.Parallel()
	up := record(t, nil)
	b := setup(t, up.addr, options{})
	for _, method := range []string{"GET", "PUT"} {
		b.send(method, "/x", "")
		got := <-up.got
		require.Equal(t, up.addr, got.host)
		for name := range got.header {
			require.NotContains(t, name, "Forwarded")
		}
	}
}

func TestI7_OneExecutionOfAKey(t *testing.T) {
	t.Parallel()
	up := record(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	b := setup(t, up.addr, options{})
	key := []string{"Idempotency-Key", `"quoted"`}
	first, _ := b.send("POST", "/x", "body", key...)
	require.Equal(t, 201, first.StatusCode)
	require.Equal(t, []string{`"quoted"`}, (<-up.got).header["Idempotency-Key"], "the caller's own goes on unchanged")
	again, text := b.send("POST", "/x", "body", "Idempotency-Key", "quoted")
	require.Equal(t, 201, again.StatusCode, text)
	require.Equal(t, first.Header.Get(proxy.HeaderEffect), again.Header.Get(proxy.HeaderEffect), "bare and quoted name one key")
	resp, text := b.send("POST", "/x", "another body", key...)
	b.refused(resp, text, "key-conflict")
	resp, text = b.send("POST", "/x?other", "body", key...)
	b.refused(resp, text, "key-conflict")
	up.nothing(t)
}

func TestI7_TwoAtOnceWithOneKeyAreOneReceipt(t *testing.T) {
	t.Parallel()
	leave := make(chan struct{})
	up := record(t, func(http.ResponseWriter, *http.Request) { <-leave })
	b := setup(t, up.addr, options{})
	var wg sync.WaitGroup
	codes := make(chan string, 8)
	for range 8 {
		wg.Go(func() {
			resp, _ := b.send("POST", "/x", "body", "Idempotency-Key", "k")
			codes <- resp.Header.Get(proxy.HeaderRefusal)
		})
	}
	for range 7 { // all but one are refused while it runs
		require.Equal(t, "effect-running", <-codes)
	}
	close(leave)
	wg.Wait()
	require.Empty(t, <-codes)
	require.Len(t, up.got, 1)
}

func TestBodiesAboveTheMemoryLimitAreSpooled(t *testing.T) {
	t.Parallel()
	up := record(t, nil)
	b := setup(t, up.addr, options{body: 4 << 20})
	big := strings.Repeat("0123456789abcdef", 3<<16)
	resp, _ := b.send("PUT", "/x", big)
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, sha256.Sum256([]byte(big)), sha256.Sum256([]byte((<-up.got).body)))
	resp, text := b.send("PUT", "/x", strings.Repeat("x", 4<<20+1))
	b.refused(resp, text, "bad-request")
	require.Contains(t, text, "4194304")
	up.nothing(t)
}

func TestAGatedReadEndsWithTheHold(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{})
	up := record(t, func(_ http.ResponseWriter, r *http.Request) { close(entered); <-r.Context().Done() })
	b := setup(t, up.addr, options{routes: []route.Route{{Name: "secret", Path: "/secret", Kind: route.Read, GateAll: true}}})
	done := make(chan int, 1)
	go func() {
		resp, _ := b.send("GET", "/secret", "")
		done <- resp.StatusCode
	}()
	<-entered
	b.gate.Cut(b.hold.Term.Key)
	require.Equal(t, 502, <-done)
	<-b.gate.Idle(b.hold.Term.Key)
}
