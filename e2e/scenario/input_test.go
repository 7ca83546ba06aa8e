package scenario_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/forgeyard/concurrency/e2e/cluster"
	"github.com/forgeyard/concurrency/e2e/provider"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
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
		"a header of 1 MiB":  {"PUT " + base + "/plans/x HTTP/1.1\r\nHost: " + s.Proxy + "\r\nX: " + strings.Repeat("x", 1<<20) + "\r\nContent-Length: 0\r\n\r\n", "431", ""},
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

// What a caller of the local API gets wrong is named, and changes nothing.
func TestBadRequestsToTheSidecarAreNamed(t *testing.T) {
	t.Parallel()
	b := start(t, "sqlite")
	s := b.sidecar(cluster.SidecarConfig{Node: "node-a", Session: quick()})
	for name, tc := range map[string]struct {
		request *pb.HoldRequest
		want    []string
	}{
		"malformed scope": {&pb.HoldRequest{Scope: "prod"}, []string{"prod", "tenant/kind:name"}},
		"unknown kind":    {&pb.HoldRequest{Scope: "acme/castle:prod"}, []string{"castle", "environment"}},
		"foreign tenant":  {&pb.HoldRequest{Scope: "other/environment:prod"}, []string{"other", "acme"}},
		"system tenant":   {&pb.HoldRequest{Scope: "system/custom:x"}, []string{"system", "reserved"}},
		"holder kind":     {&pb.HoldRequest{Scope: mergeTarget, Holder: &pb.Holder{Kind: "king", Id: "x"}}, []string{"king", "deployment"}},
		"negative wait":   {&pb.HoldRequest{Scope: mergeTarget, Wait: durationpb.New(-time.Second)}, []string{"wait", "-1s"}},
		"dead process":    {&pb.HoldRequest{Scope: mergeTarget, Pid: 1 << 30}, []string{"pid", "no such process"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Local().Acquire(within(t, 20*time.Second), tc.request)
			require.Error(t, err)
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
	status, err := s.Local().Status(t.Context())
	require.NoError(t, err)
	require.Empty(t, status.GetHolds())
}

// A configuration that cannot be safe is refused with the path and both
// values.
func TestBadConfigurationIsNamed(t *testing.T) {
	t.Parallel()
	bin, err := programs()
	require.NoError(t, err)
	good := "node: a\ndata_dir: /tmp/x\nauthority: {addresses: [\"h:1\"], people_address: \"h:2\", ca_file: ca, join_token_file: t}\n"
	for name, tc := range map[string]struct {
		program, text string
		want          []string
	}{
		"unknown key of the sidecar":   {"forgeyard-sidecar", good + "sesion: {}\n", []string{"unknown key", "sesion"}},
		"unknown key of the authority": {"forgeyard-authority", "stor: {}\n", []string{"unknown key", "stor"}},
		"ttl below the floor":          {"forgeyard-sidecar", good + "session: {ttl: 1s}\n", []string{"session", "ttl 1s", "2s"}},
		"budget: interval":             {"forgeyard-sidecar", good + "session: {interval: 9s}\n", []string{"interval 9s", "uncertain_after 9s"}},
		"budget: hard deadline":        {"forgeyard-sidecar", good + "session: {uncertain_after: 12s}\n", []string{"uncertain_after 12s", "kill_grace 3s", "14s"}},
		"budget: margin":               {"forgeyard-sidecar", good + "session: {margin: 100ms}\n", []string{"margin 100ms", "500ms"}},
		"duration without a unit":      {"forgeyard-sidecar", good + "session: {ttl: 15}\n", []string{"session.ttl", "15", "unit"}},
		"proxy on every address":       {"forgeyard-sidecar", good + "proxy: {listen: \"0.0.0.0:1\"}\n", []string{"proxy.listen", "0.0.0.0:1", "loopback"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			require.NoError(t, os.WriteFile(file, []byte(tc.text), 0o600))
			out, err := exec.CommandContext(t.Context(), filepath.Join(bin, tc.program), "check-config", "-c", file).CombinedOutput()
			require.Error(t, err, "%s", out)
			for _, want := range tc.want {
				require.Contains(t, string(out), want)
			}
		})
	}
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
