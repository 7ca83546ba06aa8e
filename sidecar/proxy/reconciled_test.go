package proxy_test

import (
	"bufio"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/effect"
)

// TestI7_AReconciledKeyIsAnsweredByWhatSomebodySaw: what had happened is not
// sent again, what had not may be.
func TestI7_AReconciledKeyIsAnsweredByWhatSomebodySaw(t *testing.T) {
	t.Parallel()
	for _, seen := range []effect.State{effect.Succeeded, effect.Failed} {
		t.Run(string(seen), func(t *testing.T) {
			t.Parallel()
			up := listen(t, func(n int64, c *net.TCPConn) {
				http.ReadRequest(bufio.NewReader(c))
				if n == 1 {
					c.Close() // without an answer
					return
				}
				c.Write([]byte("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"))
			})
			b := setup(t, up.addr, options{})
			put := func() (*http.Response, string) { return b.send("PUT", "/plans/prod", "plan", "Idempotency-Key", "k1") }
			resp, text := put()
			b.refused(resp, text, "outcome-unknown")
			resp, text = put()
			b.refused(resp, text, "effect-unknown")
			unknown := b.settled()
			b.journal.Reconcile(unknown.ID, seen, "looked")
			resp, text = put()
			if seen == effect.Succeeded {
				require.Equal(t, http.StatusOK, resp.StatusCode)
				require.Equal(t, "true", resp.Header.Get("Idempotent-Replayed"))
				require.Contains(t, text, unknown.ID)
				require.EqualValues(t, 1, up.conns.Load())
				return
			}
			require.Equal(t, http.StatusCreated, resp.StatusCode)
			require.EqualValues(t, 2, up.conns.Load())
		})
	}
}
