package scenario_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/e2e/cluster"
	"github.com/forgeyard/concurrency/e2e/provider"
)

// Each bad input gives one clear answer that names field and value, and the
// provider sees nothing of it.
func TestBadInputIsNamedAndChangesNothing(t *testing.T) {
	t.Parallel()
	b := start(t, "sqlite")
	p := provider.New()
	srv := httptest.NewServer(p)
	t.Cleanup(srv.Close)
	s := b.sidecar(cluster.SidecarConfig{Node: "node-a", Session: quick(), Providers: []cluster.Provider{{Name: "plans", URL: srv.URL}}})
	hold := acquire(t, s, "controller")

	forgeyard := func(args ...string) string {
		args = append(args, "--config", b.authority.OperatorConfig)
		out, err := exec.CommandContext(t.Context(), b.opts.Bin+"/forgeyard", args...).CombinedOutput()
		require.Error(t, err, "%v: %s", args, out)
		require.Equal(t, 1, strings.Count(strings.TrimSpace(string(out)), "\n")+1, "one line: %s", out)
		return string(out)
	}
	require.Contains(t, forgeyard("concurrency", "explain", "prod"), `"prod"`)
	require.Contains(t, forgeyard("concurrency", "force-release", mergeTarget, "--epoch", "7", "--reason", "x"), fmt.Sprint(hold.GetEpoch()))

	base := strings.TrimPrefix(hold.GetBaseUrls()["plans"], "http://"+s.Proxy)
	for name, tc := range map[string]struct{ request, status, refusal string }{
		"another's hold key": {"PUT /h/" + strings.Repeat("0", 32) + "/plans/plans/x HTTP/1.1\r\nHost: " + s.Proxy + "\r\nContent-Length: 0\r\n\r\n", "412", "no-hold"},
		"no hold key":        {"PUT /plans/x HTTP/1.1\r\nHost: " + s.Proxy + "\r\nContent-Length: 0\r\n\r\n", "4", ""},
		"two hosts":          {"PUT " + base + "/plans/x HTTP/1.1\r\nHost: x\r\nHost: y\r\nContent-Length: 0\r\n\r\n", "400", ""},
		"encoded dots":       {"PUT " + base + "/plans/%2e%2e/x HTTP/1.1\r\nHost: " + s.Proxy + "\r\nContent-Length: 0\r\n\r\n", "400", "bad-request"},
		"a header of 2 MiB":  {"PUT " + base + "/plans/x HTTP/1.1\r\nHost: " + s.Proxy + "\r\nX: " + strings.Repeat("x", 2<<20) + "\r\nContent-Length: 0\r\n\r\n", "431", ""},
	} {
		t.Run(name, func(t *testing.T) {
			answer := raw(t, s.Proxy, tc.request)
			require.Regexp(t, "^HTTP/1.1 "+tc.status, answer)
			require.Contains(t, answer, tc.refusal)
			require.NotContains(t, answer, hold.GetHoldKey(), "the key is a secret")
		})
	}
	require.Empty(t, p.Log())
}

// raw sends bytes as they are and returns head and body of the answer.
func raw(t *testing.T, addr, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	go conn.Write([]byte(request)) // a server that refuses early does not read all of it
	head := make([]byte, 4096)
	n, err := bufio.NewReader(conn).Read(head)
	require.NoError(t, err)
	return string(head[:n])
}
