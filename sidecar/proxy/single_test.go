package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/sidecar/route"
)

// everywhere is one idempotent route, so that connections are pooled.
func everywhere() []route.Route {
	return []route.Route{{Name: "any", Path: "/**", Kind: route.Mutation, Safety: effect.Idempotent}}
}

// TestFC63_OneReceiptPerEffect is the case in which net/http.Transport sends a
// request again by itself: a reused connection whose server reads the request
// and closes, all the more when an Idempotency-Key is present.
func TestFC63_OneReceiptPerEffect(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		for _, body := range []string{"", "plan"} {
			for _, key := range []string{"", "caller-key"} {
				for _, reset := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s body=%t key=%t rst=%t", method, body != "", key != "", reset), func(t *testing.T) {
						t.Parallel()
						oneReceipt(t, method, body, key, reset)
					})
				}
			}
		}
	}
}

func oneReceipt(t *testing.T, method, body, key string, reset bool) {
	var receipts atomic.Int64
	up := listen(t, func(_ int64, c *net.TCPConn) {
		defer c.Close()
		in := bufio.NewReader(c)
		for n := 1; ; n++ {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			io.Copy(io.Discard, req.Body)
			if req.URL.Path == "/warm" {
				fmt.Fprint(c, "HTTP/1.1 204 No Content\r\n\r\n")
				continue
			}
			receipts.Add(1)
			if reset {
				c.SetLinger(0)
			}
			return // read, and never answered
		}
	})
	b := setup(t, up.addr, options{routes: everywhere()})
	resp, _ := b.send("PUT", "/warm", "") // leaves a pooled connection
	require.Equal(t, 204, resp.StatusCode)
	var header []string
	if key != "" {
		header = []string{"Idempotency-Key", key}
	}
	resp, text := b.send(method, "/plans/prod", body, header...)
	b.refused(resp, text, "outcome-unknown")
	require.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
	require.EqualValues(t, 1, receipts.Load())
	require.EqualValues(t, 1, up.conns.Load(), "the pooled connection was used, and no other after it")
	require.Equal(t, effect.Unknown, b.settled().State)
}

// TestTrap03_AStaleConnectionIsNotUsedTwice: the server closes an idle
// connection; the next call goes out on a fresh one, once.
func TestTrap03_AStaleConnectionIsNotUsedTwice(t *testing.T) {
	t.Parallel()
	var receipts atomic.Int64
	closed := make(chan struct{}, 8)
	up := listen(t, func(_ int64, c *net.TCPConn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			receipts.Add(1)
			fmt.Fprint(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
		c.Close()
		closed <- struct{}{}
	})
	b := setup(t, up.addr, options{routes: everywhere()})
	for range 3 {
		b.send("PUT", "/x", "")
		<-closed
	}
	outcomes := map[effect.State]int64{}
	for _, e := range b.journal.List(journalAll()) {
		outcomes[e.State]++
	}
	require.Equal(t, receipts.Load(), outcomes[effect.Succeeded], "each receipt is one effect, each effect at most one receipt: %v", outcomes)
	require.EqualValues(t, 3, outcomes[effect.Succeeded]+outcomes[effect.Failed]+outcomes[effect.Unknown])
}

// TestTrap04_NothingIsRetriedAtAnyStage breaks the connection at each stage.
func TestTrap04_NothingIsRetriedAtAnyStage(t *testing.T) {
	t.Parallel()
	for stage, tc := range map[string]struct {
		serve func(c *net.TCPConn)
		code  string
		state effect.State
	}{
		"reset after one byte":      {func(c *net.TCPConn) { c.Read(make([]byte, 1)); c.SetLinger(0) }, "outcome-unknown", effect.Unknown},
		"closed after it has read":  {func(c *net.TCPConn) { http.ReadRequest(bufio.NewReader(c)) }, "outcome-unknown", effect.Unknown},
		"half an answer":            {func(c *net.TCPConn) { http.ReadRequest(bufio.NewReader(c)); fmt.Fprint(c, "HTTP/1.1 200 O") }, "outcome-unknown", effect.Unknown},
		"an answer that is no HTTP": {func(c *net.TCPConn) { http.ReadRequest(bufio.NewReader(c)); fmt.Fprint(c, "220 smtp ready\r\n") }, "outcome-unknown", effect.Unknown},
	} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			up := listen(t, func(_ int64, c *net.TCPConn) { defer c.Close(); tc.serve(c) })
			b := setup(t, up.addr, options{})
			resp, text := b.send("POST", "/x", "body", "Idempotency-Key", "k")
			b.refused(resp, text, tc.code)
			require.EqualValues(t, 1, up.conns.Load())
			require.Equal(t, tc.state, b.settled().State)
			resp, text = b.send("POST", "/x", "body", "Idempotency-Key", "k")
			b.refused(resp, text, "effect-unknown")
			require.EqualValues(t, 1, up.conns.Load(), "the caller's own retry does not leave either")
		})
	}
}

func TestAProviderThatIsNotThereIsNotSent(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	l.Close()
	b := setup(t, addr, options{})
	resp, text := b.send("POST", "/x", "body", "Idempotency-Key", "k")
	b.refused(resp, text, "provider-unreachable")
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	e := b.settled()
	require.Equal(t, effect.Failed, e.State)
	require.Contains(t, e.Reason, "not-sent")
	resp, text = b.send("POST", "/x", "body", "Idempotency-Key", "k")
	b.refused(resp, text, "provider-unreachable") // the key is free: nothing was executed
}
