package client_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/client"
	"github.com/forgeyard/concurrency/sidecar/ownership"
	"github.com/forgeyard/concurrency/sidecar/sidecartest"
)

// proxied is a hold whose provider "tracker" lies behind handler.
func proxied(t *testing.T, handler http.HandlerFunc) (*sidecartest.Sidecar, *client.Hold, *http.Client) {
	t.Helper()
	proxy := httptest.NewServer(handler)
	t.Cleanup(proxy.Close)
	opts := slow()
	opts.BaseURLs = func(k ownership.Key) map[string]string {
		return map[string]string{"tracker": proxy.URL + "/h/" + k.Secret() + "/tracker/"}
	}
	s := sidecartest.Start(t, opts)
	h, err := dial(t, s).Acquire(within(t), prod(t))
	require.NoError(t, err)
	hc, err := h.HTTPClient("tracker")
	require.NoError(t, err)
	return s, h, hc
}

func TestHTTPClientGoesThroughTheHold(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	_, h, hc := proxied(t, func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		got <- r.Method + " " + r.RequestURI + " " + string(text)
	})
	resp, err := hc.Post("https://tracker.example/issues/a%2Fb?x=1%2C2", "text/plain", strings.NewReader("plan"))
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, "POST /h/"+h.Key()+"/tracker/issues/a%2Fb?x=1%2C2 plan", <-got)
	_, err = h.HTTPClient("nowhere")
	require.EqualError(t, err, `provider "nowhere": is not configured on this sidecar`)
}

func TestHTTPClientFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	_, _, hc := proxied(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	resp, err := hc.Post("https://tracker.example/", "text/plain", strings.NewReader("plan"))
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, http.StatusTemporaryRedirect, resp.StatusCode)
	require.EqualValues(t, 1, calls.Load())
}

// net/http repeats a request by itself when a kept connection breaks before the
// answer: the provider may have got it twice then.
func TestHTTPClientSendsOnce(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			_, _, hc := proxied(t, func(w http.ResponseWriter, _ *http.Request) {
				if calls.Add(1) == 1 {
					return // keeps the connection
				}
				conn, _, err := http.NewResponseController(w).Hijack()
				if err == nil {
					reset(conn)
				}
			})
			send := func() error {
				req, err := http.NewRequestWithContext(within(t), method, "https://tracker.example/x", nil)
				require.NoError(t, err)
				req.Header.Set("Idempotency-Key", "plan-2") // net/http takes it for a permission
				resp, err := hc.Do(req)
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				return err
			}
			require.NoError(t, send())
			require.Error(t, send())
			require.EqualValues(t, 2, calls.Load(), "the second was sent again")
		})
	}
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // best effort
	}
	c.Close()
}

func TestHTTPClientFailsAfterTheLoss(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	s, h, hc := proxied(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	s.Authority.Take(prod(t), lease.ForceReleased, "maria", "wrong plan", false)
	var lost *client.LostError
	require.ErrorAs(t, cause(t, h), &lost)
	_, err := hc.Get("https://tracker.example/")
	require.ErrorAs(t, err, &lost)
	require.Zero(t, calls.Load())
}
