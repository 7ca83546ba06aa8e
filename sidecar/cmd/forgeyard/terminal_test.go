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

// onTerminal is a session of its own with a terminal.
type onTerminal struct {
	t      *testing.T
	cmd    *exec.Cmd
	person *os.File
	screen *bufio.Scanner
}

func startOnTerminal(t *testing.T, path string, args ...string) *onTerminal {
	t.Helper()
	person, side := terminal(t)
	o := &onTerminal{t: t, cmd: exec.Command(path, args...), person: person, screen: bufio.NewScanner(person)}
	o.cmd.Env = append(os.Environ(), asProgram+"=1")
	o.cmd.Stdin, o.cmd.Stdout, o.cmd.Stderr = side, side, side
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, o.cmd.Start())
	require.NoError(t, side.Close())
	late := time.AfterFunc(patience, func() { _ = o.cmd.Process.Kill() })
	t.Cleanup(func() {
		late.Stop()
		_ = o.cmd.Process.Kill() // it may have ended
		_ = o.cmd.Wait()         // or have been waited for
	})
	return o
}

func (o *onTerminal) types(keys string) {
	o.t.Helper()
	_, err := o.person.WriteString(keys)
	require.NoError(o.t, err)
}

// see reads the screen up to a line with the text.
func (o *onTerminal) see(text string) {
	o.t.Helper()
	for o.screen.Scan() {
		if strings.Contains(o.screen.Text(), text) {
			return
		}
	}
	require.FailNow(o.t, "the terminal closed", "before %q", text)
}

func TestCommandHasTheTerminalAndCannotBeSuspendedUnderItsHold(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	self, err := os.Executable()
	require.NoError(t, err)
	o := startOnTerminal(t, self, "run", "--socket", s.Socket, "--scope", prod, "--",
		"sh", "-c", `trap 'echo got INT; exit 9' INT; read name; echo hello $name; while :; do sleep 1000 & wait; done`)
	o.types("maria\n") // a background process would be stopped for reading
	o.see("hello maria")
	o.types("\x1a\x03") // suspend, interrupt
	o.see("got INT")
	require.Error(t, o.cmd.Wait())
	require.Equal(t, 9, o.cmd.ProcessState.ExitCode())
}

func TestRunInTheBackgroundLeavesTheTerminalToTheShell(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	self, err := os.Executable()
	require.NoError(t, err)
	o := startOnTerminal(t, "sh", "-m", "-c", `"$@" & read name; echo hello $name; wait $!; echo job $?; read name; echo bye $name`,
		"sh", self, "run", "--socket", s.Socket, "--scope", prod, "--", "sh", "-c", "echo works; exit 3")
	o.see("works")
	o.types("maria\n")
	o.see("hello maria")
	o.see("job 3")
	o.types("maria\n")
	o.see("bye maria")
	require.NoError(t, o.cmd.Wait())
}
