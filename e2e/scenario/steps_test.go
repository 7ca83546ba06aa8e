package scenario_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/forgeyard/concurrency/authority/store/postgres/pgtest"
	"github.com/forgeyard/concurrency/e2e/cluster"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

// step is a moment of a merge controller's work at which something is killed.
type step string

const (
	holding step = "while it holds"
	pushing step = "while its push is in flight"
	pushed  step = "after its push, before its release"
)

// I2, I11, FC-12: kill -9 of each process at each step of a push. The next
// controller always gets the scope with a higher epoch and lands its commit
// exactly once; the first one's lands at most once.
func TestI11_EachProcessKilledAtEachStepOfAPush(t *testing.T) {
	t.Parallel()
	for _, at := range []step{holding, pushing, pushed} {
		for _, victim := range []string{"authority", "sidecar", "controller", "postgres"} {
			for _, store := range []string{"sqlite", "postgres"} {
				short := os.Getenv("LONG") == "" && store == "postgres" && victim != "postgres"
				if short || (store == "sqlite" && victim == "postgres") {
					continue
				}
				t.Run(store+"/"+victim+" "+string(at), func(t *testing.T) {
					t.Parallel()
					newStepped(t, store, victim).run(at)
				})
			}
		}
	}
}

// stepped is one run of the story.
type stepped struct {
	t          *testing.T
	b          *bench
	victim     string
	postgres   *pgtest.Server
	git        gitServer
	first      *cluster.Sidecar
	second     *cluster.Sidecar
	controller *exec.Cmd
}

func newStepped(t *testing.T, store, victim string) *stepped {
	t.Helper()
	s := &stepped{t: t, victim: victim, git: serveGit(t)}
	if store == "postgres" {
		var err error
		s.postgres, err = pgtest.New(t.Context(), pgtest.Options{}) // its own: it may be killed
		require.NoError(t, err)
		t.Cleanup(s.postgres.Stop)
		s.b = serveOn(t, s.postgres.Database(t))
	} else {
		s.b = start(t, store)
	}
	providers := []cluster.Provider{{Name: "git", URL: s.git.url}}
	s.first = s.b.sidecar(cluster.SidecarConfig{Node: "node-a", Session: quick(), Providers: providers, Settle: time.Second})
	s.second = s.b.sidecar(cluster.SidecarConfig{Node: "node-b", Session: quick(), Providers: providers})
	s.controller = exec.Command("sleep", "600") // the process that the hold is bound to
	require.NoError(t, s.controller.Start())
	t.Cleanup(func() { s.controller.Process.Kill(); s.controller.Wait() })
	return s
}

func (s *stepped) run(at step) {
	t := s.t
	hold, err := s.first.Local().Acquire(within(t, 30*time.Second), &pb.HoldRequest{
		Scope: mergeTarget, Pid: int32(s.controller.Process.Pid), Wait: durationpb.New(20 * time.Second),
	})
	require.NoError(t, err)
	mine := s.git.clone(t, "mine")
	switch at {
	case holding:
		s.kill()
	case pushing:
		entered, leave := s.git.block(t)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = push(mine, hold.GetBaseUrls()["git"]) // may end either way
		}()
		<-entered
		s.kill()
		leave()
		<-done
	case pushed:
		out, err := push(mine, hold.GetBaseUrls()["git"])
		require.NoError(t, err, out)
		s.kill()
	}
	s.controller.Process.Kill() // its work is over in every case
	next := acquire(t, s.second, "merge-controller-2")
	require.Greater(t, next.GetEpoch(), hold.GetEpoch())
	s.land(next.GetBaseUrls()["git"])
	count := map[string]int{}
	for _, line := range s.git.log(t) {
		count[line]++
	}
	require.Equal(t, 1, count["commit of theirs"], "the second controller's commit: %v", count)
	require.LessOrEqual(t, count["commit of mine"], 1)
	if at == pushed {
		require.Equal(t, 1, count["commit of mine"], "a push that git acknowledged")
	}
}

// kill ends the victim with kill -9 and, unless it is the controller, starts it
// again.
func (s *stepped) kill() {
	t := s.t
	switch s.victim {
	case "authority":
		require.NoError(t, s.b.authority.Kill())
		require.NoError(t, s.b.authority.Restart(t.Context()))
	case "sidecar":
		require.NoError(t, s.first.Kill())
		require.NoError(t, s.first.Restart(t.Context()))
	case "postgres":
		s.postgres.Kill()
		require.NoError(t, s.postgres.Start(t.Context()))
	case "controller":
		require.NoError(t, s.controller.Process.Kill())
	}
}

// land pushes as a merge controller does: on top of whatever is there.
func (s *stepped) land(base string) {
	t := s.t
	theirs := s.git.clone(t, "theirs")
	out, err := push(theirs, base)
	require.NoError(t, err, out)
}

// block makes the next push wait inside the server: entered is closed when it
// is there, leave lets it go on.
func (g gitServer) block(t *testing.T) (entered <-chan struct{}, leave func()) {
	t.Helper()
	in, out := filepath.Join(g.root, "in"), filepath.Join(g.root, "out")
	require.NoError(t, syscall.Mkfifo(in, 0o600))
	require.NoError(t, syscall.Mkfifo(out, 0o600))
	hook := filepath.Join(g.root, "repo.git", "hooks", "pre-receive")
	require.NoError(t, os.WriteFile(hook, []byte("#!/bin/sh\necho here > "+in+"\ncat "+out+" > /dev/null\n"), 0o755))
	there := make(chan struct{})
	go func() {
		defer close(there)
		_, _ = os.ReadFile(in) // returns when the hook has written
	}()
	return there, func() {
		require.NoError(t, os.Remove(hook)) // the next push is not held up
		require.NoError(t, os.WriteFile(out, []byte("go\n"), 0o600))
	}
}
