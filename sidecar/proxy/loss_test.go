package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/sidecar/ownership"
	"github.com/forgeyard/concurrency/sidecar/route"
)

// TestFC65_AtTheLossEveryConnectionOfTheHoldIsClosed: the one that is idle in
// the pool, the one with a long upload that the provider does not read, and the
// one that waits for an answer.
func TestFC65_AtTheLossEveryConnectionOfTheHoldIsClosed(t *testing.T) {
	t.Parallel()
	const upload = 32 << 20
	began, ended, cut := make(chan string, 3), make(chan string, 3), make(chan struct{})
	up := listen(t, func(_ int64, c *net.TCPConn) {
		in := bufio.NewReader(c)
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		began <- r.URL.Path
		if r.URL.Path == "/idle" {
			io.Copy(io.Discard, r.Body)
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
		if r.URL.Path == "/upload" {
			<-cut // it reads nothing before
		}
		n, _ := io.Copy(io.Discard, in) // until it is closed
		if n < upload {
			ended <- r.URL.Path
		}
	})
	b := setup(t, up.addr, options{routes: []route.Route{{Name: "idle", Methods: []string{"PUT"}, Path: "/idle", Kind: route.Mutation, Safety: effect.Idempotent}}})
	resp, _ := b.send("PUT", "/idle", "plan")
	require.Equal(t, 200, resp.StatusCode)
	for _, c := range []struct {
		path string
		body io.Reader
	}{{"/upload", strings.NewReader(strings.Repeat("x", upload))}, {"/mute", strings.NewReader("plan")}} {
		req, err := http.NewRequestWithContext(t.Context(), "PUT", b.url(c.path), c.body)
		require.NoError(t, err)
		go func() {
			if resp, err := b.client.Do(req); err == nil {
				resp.Body.Close()
			}
		}()
	}
	for range 3 {
		<-began
	}
	require.Empty(t, ended)
	b.publish(func(x *ownership.Term) { x.State, x.Reason = ownership.Lost, ownership.Expired })
	b.gate.Cut(b.hold.Term.Key)
	close(cut)
	var closed []string
	for range 3 {
		select {
		case path := <-ended:
			closed = append(closed, path)
		case <-time.After(10 * time.Second):
			require.FailNow(t, "a connection outlived the hold", "closed: %v", closed)
		}
	}
	require.ElementsMatch(t, []string{"/idle", "/upload", "/mute"}, closed)
	<-b.gate.Idle(b.hold.Term.Key)
}
