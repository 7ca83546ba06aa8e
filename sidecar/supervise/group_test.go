package supervise_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// family is a command with a child, a daemon in a session of its own, and an
// orphan. None of them ends at TERM.
func family(t *testing.T) []string {
	self, err := os.Executable()
	require.NoError(t, err)
	script := "trap '' TERM\n" +
		asStubborn + `=child "$0" &` + "\n" + asStubborn + `=daemon setsid "$0" &` + "\n(" + asStubborn + `=orphan "$0" &)` + "\n" +
		"while :; do sleep 1000; done"
	return []string{"sh", "-c", script, self}
}

// heard reads the first three lines of family, in whatever order.
func heard(s *supervised) {
	s.t.Helper()
	for range 3 {
		line := s.hear()
		var name string
		var pid int
		_, err := fmt.Sscan(line, &name, &pid)
		require.NoError(s.t, err, line)
	}
}

func TestFC25_WholeFamilyIsStoppedAndProvedGone(t *testing.T) {
	t.Parallel()
	s := start(t, family(t)...)
	heard(s)
	s.tell("term")
	for range 3 {
		require.Contains(t, s.hear(), "heard TERM")
	}
	require.NotEmpty(t, s.marked(), "they ignore it, so that there is something to kill")
	s.tell("kill")
	require.Equal(t, "killed", s.hear())
	require.Empty(t, s.marked(), "Kill returned while something was left")
	s.tell("await-done")
	require.Equal(t, "done", s.hear())
}

func TestFC25_StoppedProcessesAreKilledToo(t *testing.T) {
	t.Parallel()
	s := start(t, family(t)...)
	heard(s)
	s.tell("stop")
	s.tell("kill")
	require.Equal(t, "killed", s.hear())
	require.Empty(t, s.marked())
}

func TestFC25_ForkingWhileItIsKilledEscapesNothing(t *testing.T) {
	t.Parallel()
	s := start(t, "sh", "-c", `echo started 1; while :; do (setsid sleep 1000 &) ; done`)
	s.hearPID("started")
	s.tell("kill")
	require.Equal(t, "killed", s.hear())
	require.Empty(t, s.marked())
}

func TestFC104_ExitOfTheCommandIsNotTheEndOfItsFamily(t *testing.T) {
	t.Parallel()
	s := start(t, "sh", "-c", `setsid sh -c 'echo daemon $$; exec sleep 1000' & exec sleep 0`)
	daemon := s.hearPID("daemon")
	s.tell("await-exit")
	require.Equal(t, "exited 0", s.hear())
	require.Equal(t, []int{daemon}, s.marked(), "what was left behind is still there")
	s.tell("term")
	s.tell("await-done")
	require.Equal(t, "done", s.hear())
	require.Empty(t, s.marked())
}

func TestFC25_CommandDiesWithItsSupervisor(t *testing.T) {
	t.Parallel()
	s := start(t, "sh", "-c", `trap '' TERM INT HUP; echo command $$; while :; do sleep 1000; done`)
	command := s.hearPID("command")
	require.NoError(t, s.cmd.Process.Kill())
	awaitGone(t, command)
}

func TestForwardedSignalReachesTheGroupOnly(t *testing.T) {
	t.Parallel()
	s := start(t, "sh", "-c", `trap 'echo heard; exit 3' TERM; echo command $$; while :; do sleep 1000 & wait; done`)
	s.hearPID("command")
	s.tell("forward-term")
	require.Equal(t, "heard", s.hear())
	s.tell("await-exit")
	require.Equal(t, "exited 3", s.hear())
}

func TestCodeIsTheCommandsOwn(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"exit 0": "exited 0", "exit 7": "exited 7", "exit 112": "exited 112",
		"kill -KILL $$": "exited 137", "kill -TERM $$": "exited 143", "kill -SEGV $$": "exited 139",
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			s := start(t, "sh", "-c", script)
			s.tell("await-exit")
			require.Equal(t, want, s.hear())
		})
	}
}

func TestWhatCannotBeStartedIsNamed(t *testing.T) {
	t.Parallel()
	s := start(t, "/no/such/program")
	s.cmd.Stderr = nil
	require.Error(t, s.cmd.Wait())
	require.Equal(t, 127, s.cmd.ProcessState.ExitCode())
}
