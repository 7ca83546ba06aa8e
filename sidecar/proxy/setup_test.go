package proxy_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/sidecar/gate"
	"github.com/forgeyard/concurrency/sidecar/journal"
	"github.com/forgeyard/concurrency/sidecar/ownership"
	"github.com/forgeyard/concurrency/sidecar/proxy"
	"github.com/forgeyard/concurrency/sidecar/route"
)

// bench is one proxy with a real gate, a real journal and one hold.
type bench struct {
	t       testing.TB
	gate    *gate.Gate
	journal *journal.Journal
	proxy   *proxy.Proxy
	hold    ownership.Entry
	addr    string
	logs    *observer.ObservedLogs
	client  *http.Client
}

// options change a bench.
type options struct {
	commit func(func() error) error
	routes []route.Route
	limit  time.Duration
	body   int64
	// confirm answers for the authority.
	confirm func(context.Context, ownership.Term, effect.Effect) error
}

// confirmer is the authority that a test plays.
type confirmer func(context.Context, ownership.Term, effect.Effect) error

func (f confirmer) Confirm(ctx context.Context, t ownership.Term, e effect.Effect) error {
	return f(ctx, t, e)
}

// setup starts a proxy in front of an upstream at addr.
func setup(t testing.TB, upstream string, o options) *bench {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	log := zap.New(core)
	j, err := journal.Open(journal.Config{Path: filepath.Join(t.TempDir(), "journal.db"), Clock: clock.System(), Log: log, Commit: o.commit})
	require.NoError(t, err)
	table, err := route.Compile(o.routes)
	require.NoError(t, err)
	u, err := url.Parse("http://" + upstream)
	require.NoError(t, err)
	b := &bench{t: t, gate: gate.New(clock.System()), journal: j, logs: logs}
	b.proxy, err = proxy.New(proxy.Config{
		Node: "n1", Providers: []proxy.Provider{{Name: "p", URL: u, Routes: table}}, Gate: b.gate, Journal: j, Confirmer: confirmer(o.confirm), Clock: clock.System(), Log: log,
		Registerer: prometheus.NewRegistry(), TTL: 15 * time.Second, CallLimit: o.limit, BodyLimit: o.body, SpoolDir: t.TempDir(),
	})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b.addr = l.Addr().String()
	stopped := make(chan struct{})
	go func() { defer close(stopped); b.proxy.Serve(t.Context(), l) }()
	sc, err := scope.Parse("acme/environment:prod")
	require.NoError(t, err)
	now := clock.System().Boot()
	b.hold = ownership.Entry{InFlight: &atomic.Int64{}, Term: ownership.Term{
		Key: ownership.NewKey(), Scope: sc, Lease: "L1", Epoch: 42, State: ownership.Owned, Holder: lease.Holder{Kind: lease.HolderRun, ID: "r"},
		UncertainAt: now.Add(time.Minute), Deadline: now.Add(2 * time.Minute),
	}}
	b.publish(func(*ownership.Term) {})
	b.client = &http.Client{
		Transport: &http.Transport{DisableCompression: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(func() {
		b.client.CloseIdleConnections()
		b.gate.Cut(b.hold.Term.Key)
		<-stopped
		j.Close()
	})
	return b
}

// publish shows the gate the hold, changed.
func (b *bench) publish(change func(*ownership.Term)) {
	e := b.hold
	change(&e.Term)
	b.gate.Publish(&ownership.View{Holds: map[ownership.Key]ownership.Entry{e.Term.Key: e}})
}

func (b *bench) url(path string) string { return "http://" + b.addr + b.path(path) }

// path is the request target of a provider's path.
func (b *bench) path(path string) string { return "/h/" + b.hold.Term.Key.Secret() + "/p" + path }

// send makes one request and reads the whole answer.
func (b *bench) send(method, path, body string, header ...string) (*http.Response, string) {
	b.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url(path), r)
	require.NoError(b.t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := b.client.Do(req)
	require.NoError(b.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	return resp, string(text)
}

// raw sends bytes as they are and returns the answer.
func (b *bench) raw(request string) (*http.Response, string) {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.addr)
	require.NoError(b.t, err)
	defer conn.Close()
	require.NoError(b.t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	_, err = conn.Write([]byte(request))
	require.NoError(b.t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(b.t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	return resp, string(text)
}

// refused demands a refusal with this code: a status that no SDK retries, no
// Retry-After, and the key nowhere.
func (b *bench) refused(resp *http.Response, body, code string) {
	b.t.Helper()
	require.Equal(b.t, code, resp.Header.Get(proxy.HeaderRefusal), "%d %s", resp.StatusCode, body)
	require.Contains(b.t, body, `"code":"`+code+`"`)
	require.Equal(b.t, "application/problem+json", resp.Header.Get("Content-Type"))
	require.Empty(b.t, resp.Header.Get("Retry-After"))
	require.NotContains(b.t, body, b.hold.Term.Key.Secret())
	require.NotContains(b.t, []int{408, 409, 425, 429, 500, 503}, resp.StatusCode)
}

// settled waits for the outcome of the latest effect that had an intent;
// refused attempts are journalled too, begun and settled at one instant.
func (b *bench) settled() effect.Effect {
	b.t.Helper()
	require.NoError(b.t, b.journal.WaitSettled(b.t.Context(), "L1"))
	for _, e := range b.journal.List(journal.Filter{}) {
		if !e.StartedAt.Equal(e.SettledAt) {
			return e
		}
	}
	b.t.Fatal("no effect was begun")
	return effect.Effect{}
}

// upstream is a raw TCP server: handle gets each connection.
type upstream struct {
	addr  string
	conns atomic.Int64
}

func listen(t testing.TB, handle func(n int64, c *net.TCPConn)) *upstream {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	u := &upstream{addr: l.Addr().String()}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n := u.conns.Add(1)
			go handle(n, c.(*net.TCPConn))
		}
	}()
	return u
}

// recorder is an HTTP upstream that keeps what it got.
type recorder struct {
	addr string
	got  chan recorded
}

type recorded struct {
	method, uri, body string
	header            http.Header
	host              string
}

func record(t testing.TB, answer http.HandlerFunc) *recorder {
	t.Helper()
	r := &recorder{got: make(chan recorded, 256)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r.addr = l.Addr().String()
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		text, err := io.ReadAll(q.Body)
		if err != nil {
			return
		}
		r.got <- recorded{method: q.Method, uri: q.RequestURI, body: string(text), header: q.Header.Clone(), host: q.Host}
		if answer != nil {
			answer(w, q)
		}
	})}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	return r
}

// nothing demands that the upstream got no request.
func (r *recorder) nothing(t testing.TB) {
	t.Helper()
	select {
	case got := <-r.got:
		t.Fatalf("the provider got %s %s", got.method, got.uri)
	default:
	}
}
