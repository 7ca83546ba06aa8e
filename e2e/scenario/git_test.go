package scenario_test

import (
	"net/http/cgi"
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
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

const mergeTarget = "acme/merge-target:main"

// Two merge controllers push with the real git client to a real git
// http-backend. The one whose sidecar was paused is refused; the other's
// commit lands exactly once.
func TestFC23_GitPushOfAPausedMergeControllerIsRefused(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"sqlite", "postgres"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			b := start(t, store)
			g := serveGit(t)
			providers := []cluster.Provider{{Name: "git", URL: g.url}}
			a := b.sidecar(cluster.SidecarConfig{Node: "node-a", Session: quick(), Providers: providers})
			c := b.sidecar(cluster.SidecarConfig{Node: "node-b", Session: quick(), Providers: providers})

			stale := acquire(t, a, "merge-controller-1")
			mine, theirs := g.clone(t, "stale"), g.clone(t, "fresh")
			require.NoError(t, a.Pause())
			fresh := acquire(t, c, "merge-controller-2")
			require.Greater(t, fresh.GetEpoch(), stale.GetEpoch())
			require.NoError(t, a.Resume())

			out, err := push(mine, stale.GetBaseUrls()["git"])
			require.Error(t, err, "the stale controller pushed")
			require.Contains(t, out, "412", "git shows the status")
			out, err = push(theirs, fresh.GetBaseUrls()["git"])
			require.NoError(t, err, out)

			require.Equal(t, []string{"commit of fresh", "first"}, g.log(t))
			effects, err := a.Local().Effects(t.Context())
			require.NoError(t, err)
			refused := ""
			for _, e := range effects.GetEffects() {
				refused += e.GetOperation() + " " + e.GetState() + " " + e.GetReason() + "\n"
			}
			require.Regexp(t, "failed (lost|superseded)", refused)
		})
	}
}

func acquire(t *testing.T, s *cluster.Sidecar, name string) *pb.HoldEvent {
	t.Helper()
	hold, err := s.Local().Acquire(within(t, time.Minute), &pb.HoldRequest{
		Scope: mergeTarget, Holder: &pb.Holder{Kind: "controller", Id: name}, Wait: durationpb.New(50 * time.Second), Pid: int32(os.Getpid()),
	})
	require.NoError(t, err)
	require.Equal(t, "owned", hold.GetState())
	return hold
}

// gitServer is a bare repository behind git http-backend.
type gitServer struct{ root, url string }

func serveGit(t *testing.T) gitServer {
	t.Helper()
	root := t.TempDir()
	git(t, root, "init", "-q", "--bare", "-b", "main", "repo.git")
	git(t, filepath.Join(root, "repo.git"), "config", "http.receivepack", "true")
	seed := filepath.Join(root, "seed")
	git(t, root, "clone", "-q", filepath.Join(root, "repo.git"), seed)
	git(t, seed, "commit", "-q", "--allow-empty", "-m", "first")
	git(t, seed, "push", "-q", "origin", "HEAD:main")
	path := strings.TrimSpace(git(t, root, "--exec-path"))
	srv := httptest.NewServer(&cgi.Handler{
		Path: filepath.Join(path, "git-http-backend"), Root: "/", Dir: root,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=controller"},
	})
	t.Cleanup(srv.Close)
	return gitServer{root: root, url: srv.URL}
}

// clone has one commit more than the server.
func (g gitServer) clone(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	git(t, g.root, "clone", "-q", g.url+"/repo.git", dir)
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "commit of "+name)
	return dir
}

func (g gitServer) log(t *testing.T) []string {
	t.Helper()
	return strings.Split(strings.TrimSpace(git(t, filepath.Join(g.root, "repo.git"), "log", "--format=%s", "main")), "\n")
}

func push(dir, base string) (string, error) {
	cmd := exec.Command("git", "-C", dir, "push", base+"/repo.git", "HEAD:main")
	cmd.Env = gitEnv()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	cmd.Env = gitEnv()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %v: %s", args, out)
	return string(out)
}

func gitEnv() []string {
	return append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@t", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@t")
}
