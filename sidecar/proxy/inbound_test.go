package proxy_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// TestTrap06_TheCallerCannotRemoveOrForgeOurHeaders (and 8): hop-by-hop
// tricks, other spellings.
func TestTrap06_TheCallerCannotRemoveOrForgeOurHeaders(t *testing.T) {
	t.Parallel()
	up := record(t, nil)
	b := setup(t, up.addr, options{})
	resp, _ := b.raw("PUT " + b.path("/x") + " HTTP/1.1\r\nHost: " + b.addr + "\r\nContent-Length: 0\r\n" +
		"Connection: close, Fencing-Token, Idempotency-Key, X-Secret\r\nX-Secret: 1\r\nX-Kept: 2\r\n" +
		"Fencing-Token: 99\r\nFencing_Token: 98\r\nfencing-scope: evil/x:y\r\nFENCING-LEASE: L9\r\nFencing-Signature: s\r\n" +
		"Forgeyard-Refusal: none\r\nIdempotency_Key: k\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n")
	require.Equal(t, 200, resp.StatusCode)
	got := (<-up.got).header
	require.Equal(t, []string{"42"}, got["Fencing-Token"])
	require.Equal(t, []string{"acme/environment:prod"}, got["Fencing-Scope"])
	require.Equal(t, []string{"L1"}, got["Fencing-Lease"])
	require.Equal(t, "2", got.Get("X-Kept"))
	require.Equal(t, "1.2.3.4", got.Get("X-Forwarded-For"), "end-to-end headers pass, and none is added")
	for name := range got {
		folded := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
		require.NotContains(t, []string{"fencingsignature", "forgeyardrefusal", "xsecret"}, folded)
		require.NotContains(t, name, "_")
	}
	require.Len(t, got["Idempotency-Key"], 1, "derived from the effect")
	require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, got.Get("Idempotency-Key"))
}

// TestTrap09_AmbiguousFramingIsReEmittedOrRefused sends what two servers could
// read differently, and records the provider's bytes.
func TestTrap09_AmbiguousFramingIsReEmittedOrRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		head, body string
		accepted   bool
	}{
		"CL and TE":              {"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n", true}, // one reading: TE, and our own length goes on
		"two lengths":            {"Content-Length: 3\r\nContent-Length: 4\r\n", "abc", false},
		"a signed length":        {"Content-Length: +3\r\n", "abc", false},
		"an unknown TE":          {"Transfer-Encoding: xchunked\r\n", "3\r\nabc\r\n0\r\n\r\n", false},
		"two TEs":                {"Transfer-Encoding: chunked, identity\r\n", "3\r\nabc\r\n0\r\n\r\n", false},
		"two hosts":              {"Host: other\r\nContent-Length: 0\r\n", "", false},
		"space before the colon": {"Content-Length : 3\r\n", "abc", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := record(t, nil)
			b := setup(t, up.addr, options{})
			resp, _ := b.raw("POST " + b.path("/x") + " HTTP/1.1\r\nHost: " + b.addr + "\r\nConnection: close\r\n" + tc.head + "\r\n" + tc.body)
			if !tc.accepted {
				require.GreaterOrEqual(t, resp.StatusCode, 400)
				up.nothing(t)
				return
			}
			require.Equal(t, 200, resp.StatusCode)
			got := <-up.got
			require.Equal(t, "abc", got.body)
			require.Empty(t, got.header["Transfer-Encoding"])
		})
	}
}

// TestTrap10_AMalformedBodyNeverStartsAnEffect: the provider gets no byte.
func TestTrap10_AMalformedBodyNeverStartsAnEffect(t *testing.T) {
	t.Parallel()
	for name, rest := range map[string]string{
		"bad chunk size":  "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
		"truncated chunk": "Transfer-Encoding: chunked\r\n\r\n5\r\nabc",
		"short body":      "Content-Length: 10\r\n\r\nabc",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := record(t, nil)
			b := setup(t, up.addr, options{})
			conn, err := net.Dial("tcp", b.addr)
			require.NoError(t, err)
			defer conn.Close()
			fmt.Fprint(conn, "POST "+b.path("/x")+" HTTP/1.1\r\nHost: "+b.addr+"\r\n"+rest)
			require.NoError(t, conn.(*net.TCPConn).CloseWrite())
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			require.Equal(t, 400, resp.StatusCode)
			<-b.gate.Idle(b.hold.Term.Key)
			up.nothing(t)
		})
	}
}

// TestTrap12_TheFenceComesBefore100Continue: a blocked caller sends no body.
func TestTrap12_TheFenceComesBefore100Continue(t *testing.T) {
	t.Parallel()
	up := record(t, nil)
	b := setup(t, up.addr, options{})
	head := "PUT " + b.path("/x") + " HTTP/1.1\r\nHost: " + b.addr + "\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
	conn, err := net.Dial("tcp", b.addr)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	in := bufio.NewReader(conn)
	fmt.Fprint(conn, head)
	line, err := in.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "100 Continue")
	fmt.Fprint(conn, "abc")
	_, err = in.ReadString('\n') // the empty line of the 100
	require.NoError(t, err)
	resp, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	got := <-up.got
	require.Equal(t, "abc", got.body)
	require.Empty(t, got.header.Get("Expect"))

	b.publish(func(x *ownership.Term) { x.State = ownership.Lost })
	resp, text := b.raw(head)
	b.refused(resp, text, "lost") // the first line is the refusal, not a 100
	up.nothing(t)
}

// TestTrap13_ABlockedUploadSeesTheRefusal: not a reset, up to the drain limit.
func TestTrap13_ABlockedUploadSeesTheRefusal(t *testing.T) {
	t.Parallel()
	up := record(t, nil)
	b := setup(t, up.addr, options{})
	b.publish(func(x *ownership.Term) { x.State = ownership.Lost })
	for _, size := range []int{1 << 10, 300 << 10, 3 << 20} {
		resp, text := b.send("PUT", "/x", strings.Repeat("x", size))
		b.refused(resp, text, "lost")
	}
	up.nothing(t)
}

// TestTrap16_TheQueryPassesByteForByteOrNotAtAll: signatures cover it.
func TestTrap16_TheQueryPassesByteForByteOrNotAtAll(t *testing.T) {
	t.Parallel()
	up := record(t, nil)
	b := setup(t, up.addr, options{})
	const query = "?x=%2F..%2f&y=a+b%20c&y=2&empty=&z"
	b.send("PUT", "/x"+query, "")
	require.Equal(t, "/x"+query, (<-up.got).uri)
	b.send("GET", "/x"+query, "")
	require.Equal(t, "/x"+query, (<-up.got).uri)
	resp, text := b.send("PUT", "/x?a=1;b=2", "")
	b.refused(resp, text, "bad-request")
	up.nothing(t)
}

// TestTrap17_TrickyPathsAreRefusedBeforeTheRouteTable.
func TestTrap17_TrickyPathsAreRefusedBeforeTheRouteTable(t *testing.T) {
	t.Parallel()
	up := record(t, nil)
	b := setup(t, up.addr, options{})
	for _, path := range []string{"/a/%2e%2e/b", "/a%2Fb", "//a", "/a/../b", "/a;v=1", "/%5ca"} {
		for _, method := range []string{"PUT", "GET"} {
			resp, text := b.raw(method + " " + b.path(path) + " HTTP/1.1\r\nHost: " + b.addr + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			b.refused(resp, text, "bad-request")
		}
	}
	up.nothing(t)
}

// TestTrap18_ThisIsNoForwardProxy: absolute targets, foreign hosts.
func TestTrap18_ThisIsNoForwardProxy(t *testing.T) {
	t.Parallel()
	up := record(t, nil)
	b := setup(t, up.addr, options{})
	for _, request := range []string{
		"POST http://169.254.169.254" + b.path("/x") + " HTTP/1.1\r\nHost: 169.254.169.254\r\n",
		"POST http://169.254.169.254" + b.path("/x") + " HTTP/1.1\r\nHost: " + b.addr + "\r\n",
		"POST " + b.path("/x") + " HTTP/1.1\r\nHost: evil.example\r\n",
		"POST " + b.path("/x") + " HTTP/1.1\r\nHost: " + strings.Split(b.addr, ":")[0] + ":1\r\n",
	} {
		resp, text := b.raw(request + "Content-Length: 0\r\nConnection: close\r\n\r\n")
		b.refused(resp, text, "bad-request")
	}
	up.nothing(t)
}

// TestTrap20_ABrowserPageOfAnotherOriginIsRefused.
func TestTrap20_ABrowserPageOfAnotherOriginIsRefused(t *testing.T) {
	t.Parallel()
	up := record(t, nil)
	b := setup(t, up.addr, options{})
	resp, text := b.send("POST", "/x", "", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
	b.refused(resp, text, "route-denied")
	up.nothing(t)
}

// TestKeysCannotBeToldApart: unknown, malformed and foreign ones, and none is
// ever logged or sent on.
func TestKeysCannotBeToldApart(t *testing.T) {
	t.Parallel()
	up := record(t, nil)
	b := setup(t, up.addr, options{})
	var texts []string
	for _, key := range []string{ownership.NewKey().Secret(), strings.Repeat("0", 32), "short", strings.Repeat("z", 32)} {
		resp, text := b.raw("PUT /h/" + key + "/p/x HTTP/1.1\r\nHost: " + b.addr + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		b.refused(resp, text, "no-hold")
		require.NotContains(t, text, key)
		texts = append(texts, text)
	}
	for _, text := range texts {
		require.Equal(t, texts[0], text)
	}
	b.send("PUT", "/x", "body")
	got := <-up.got
	require.NotContains(t, got.uri, b.hold.Term.Key.Secret())
	for _, entry := range b.logs.All() {
		line := fmt.Sprint(entry.Message, entry.ContextMap())
		require.NotContains(t, line, b.hold.Term.Key.Secret())
	}
}

func TestWhatIsNotConfiguredIsNamed(t *testing.T) {
	t.Parallel()
	up := record(t, nil)
	b := setup(t, up.addr, options{})
	resp, text := b.raw("PUT /h/" + b.hold.Term.Key.Secret() + "/nowhere/x HTTP/1.1\r\nHost: " + b.addr + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	b.refused(resp, text, "route-denied")
	require.Contains(t, text, `nowhere`)
	resp, text = b.send("GET", "/x", "", "Connection", "Upgrade", "Upgrade", "websocket")
	b.refused(resp, text, "route-denied")
	require.Contains(t, text, "Upgrade")
	resp, text = b.send("POST", "/x", "", "Idempotency-Key", strings.Repeat("k", 256))
	b.refused(resp, text, "bad-request")
	require.Contains(t, text, "256")
	up.nothing(t)
}
