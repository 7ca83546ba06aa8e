package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/forgeyard/concurrency/sidecar/sidecartest"
)

// terminal is a pair of a person's side and a program's side.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { person.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetUint32(int(person.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { program.Close() })
	return person, program
}

func TestCommandHasTheTerminalAndCannotBeSuspendedUnderItsHold(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	person, side := terminal(t)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, "run", "--socket", s.Socket, "--scope", prod, "--",
		"sh", "-c", `trap 'echo got INT; exit 9' INT; read name; echo hello $name; while :; do sleep 1000 & wait; done`)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = side, side, side
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	require.NoError(t, side.Close())
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	screen := bufio.NewScanner(person)
	see := func(text string) {
		t.Helper()
		for screen.Scan() {
			if strings.Contains(screen.Text(), text) {
				return
			}
		}
		require.FailNow(t, "the terminal closed", "before %q", text)
	}
	_, err = person.WriteString("maria\n") // a background process would be stopped for reading
	require.NoError(t, err)
	see("hello maria")
	_, err = person.WriteString("\x1a\x03") // suspend, interrupt
	require.NoError(t, err)
	see("got INT")
	require.Error(t, cmd.Wait())
	require.Equal(t, 9, cmd.ProcessState.ExitCode())
}
