package supervise_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// patience bounds every wait of these tests.
const patience = 20 * time.Second

// supervised is a supervisor in a process of its own, with its command.
type supervised struct {
	t    *testing.T
	mark string // in the environment of everything below it
	cmd  *exec.Cmd
	in   io.Writer
	out  chan string
}

func start(t *testing.T, args ...string) *supervised {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	s := &supervised{t: t, mark: fmt.Sprintf("FORGEYARD_TEST_MARK=%s-%d", t.Name(), time.Now().UnixNano()), out: make(chan string, 64)}
	s.cmd = exec.Command(self, args...)
	s.cmd.Env = append(os.Environ(), asSupervisor+"=1", s.mark)
	s.cmd.Stderr = os.Stderr
	s.in, err = s.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	go func() {
		defer close(s.out)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.out <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // it may have ended
		for _, pid := range s.marked() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		_ = s.cmd.Wait() // killed
	})
	return s
}

func (s *supervised) tell(word string) {
	s.t.Helper()
	_, err := fmt.Fprintln(s.in, word)
	require.NoError(s.t, err)
}

// hear returns the next line that the supervisor or its command printed.
func (s *supervised) hear() string {
	s.t.Helper()
	select {
	case line, open := <-s.out:
		require.True(s.t, open, "the supervisor ended")
		return line
	case <-time.After(patience):
		require.FailNow(s.t, "nothing was printed", "marked processes: %v", s.marked())
		return ""
	}
}

// hearPID reads a line like "name 123".
func (s *supervised) hearPID(name string) int {
	s.t.Helper()
	text, ok := strings.CutPrefix(s.hear(), name+" ")
	require.True(s.t, ok, "wanted the pid of %s", name)
	pid, err := strconv.Atoi(text)
	require.NoError(s.t, err)
	return pid
}

// marked lists the living processes that were started below this supervisor,
// by their environment: whatever group, session or parent they have by now.
func (s *supervised) marked() []int {
	var out []int
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(s.t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		pid, _ := strconv.Atoi(strings.Split(f, "/")[2])
		if err == nil && pid != s.cmd.Process.Pid && strings.Contains(string(text), s.mark) {
			out = append(out, pid)
		}
	}
	return out
}

// awaitGone waits until a process that is not our child has ended.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err == syscall.ESRCH {
		return
	}
	require.NoError(t, err)
	defer unix.Close(fd)
	n, err := 0, error(unix.EINTR)
	for err == unix.EINTR { // the runtime's own signals interrupt it
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
	}
	require.NoError(t, err)
	require.Equal(t, 1, n, "process %d is still there", pid)
}
