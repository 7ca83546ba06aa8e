package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/sidecar/keeper"
	"github.com/forgeyard/concurrency/sidecar/sidecartest"
)

// patience bounds every wait of these tests.
const patience = 20 * time.Second

const prod = "acme/environment:prod"

// slow is a session whose ttl is far longer than patience.
func slow() sidecartest.Options {
	b := lease.DefaultBudget()
	b.TTL, b.UncertainAfter, b.LockDelay = 10*time.Minute, 5*time.Minute, 3*time.Minute
	return sidecartest.Options{Budget: b}
}

func parse(t *testing.T, text string) scope.Scope {
	t.Helper()
	s, err := scope.Parse(text)
	require.NoError(t, err)
	return s
}

// program is a running forgeyard.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	lines  chan string // of standard output
	file   string      // --status-file
	mu     sync.Mutex
	errOut bytes.Buffer
	errs   chan string // lines of standard error
	read   sync.WaitGroup
}

// startRun starts `forgeyard run --scope acme/environment:prod flags -- args`.
func startRun(t *testing.T, socket string, flags []string, args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &program{t: t, file: filepath.Join(t.TempDir(), "status.json"), lines: make(chan string, 64), errs: make(chan string, 64)}
	all := append([]string{"run", "--socket", socket, "--scope", prod, "--status-file", p.file}, flags...)
	p.cmd = exec.Command(self, append(append(all, "--"), args...)...)
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	errs, err := p.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	p.read.Go(func() {
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	})
	p.read.Go(func() {
		defer close(p.errs)
		for s := bufio.NewScanner(errs); s.Scan(); {
			p.mu.Lock()
			p.errOut.WriteString(s.Text() + "\n")
			p.mu.Unlock()
			p.errs <- s.Text()
		}
	})
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		_ = p.cmd.Wait()         // or have been waited for
	})
	return p
}

// hear returns the next line of a channel.
func (p *program) hear(from chan string) string {
	p.t.Helper()
	select {
	case line, open := <-from:
		require.True(p.t, open, "it ended: %s", p.stderr())
		return line
	case <-time.After(patience):
		require.FailNow(p.t, "nothing was printed")
		return ""
	}
}

// end waits for the program: its code and the last line of standard error.
func (p *program) end() (int, string) {
	p.t.Helper()
	late := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	p.read.Wait()
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(p.t, err)
	}
	lines := strings.Split(strings.TrimSpace(p.stderr()), "\n")
	return p.cmd.ProcessState.ExitCode(), lines[len(lines)-1]
}

// stderr is what came on standard error so far.
func (p *program) stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.errOut.String()
}

// status reads the status file.
func (p *program) status() runStatus {
	p.t.Helper()
	text, err := os.ReadFile(p.file)
	require.NoError(p.t, err)
	var s runStatus
	require.NoError(p.t, json.Unmarshal(text, &s))
	return s
}

// released waits for the authority to get a release.
func released(t *testing.T, s *sidecartest.Sidecar) keeper.ReleaseCommand {
	t.Helper()
	select {
	case r := <-s.Authority.Releases():
		return r
	case <-time.After(patience):
		require.FailNow(t, "nothing was released")
		return keeper.ReleaseCommand{}
	}
}

// awaitGone waits until a process that is not our child has ended.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
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
