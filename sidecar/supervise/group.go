package supervise

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Spec is what to run.
type Spec struct {
	Path  string   // of the program; empty: found by Args[0]
	Args  []string // program and arguments
	Env   []string
	Files []*os.File // standard input, output, error
	// SameGroup leaves the command in this process' group.
	SameGroup bool
	// DeathSignal is what the command gets when this process dies; zero: KILL.
	DeathSignal syscall.Signal
}

// Group is a running command with everything that it started.
type Group struct {
	pid      int
	group    int  // process group of the command
	terminal bool // the command has the terminal
	reaped   chan struct{}
	done     chan struct{}

	mu     sync.Mutex
	status unix.WaitStatus
	exited chan struct{} // the command itself has ended
}

// killPause is between two rounds of killing: new children may have been
// forked in the first.
const killPause = 5 * time.Millisecond

// Start runs the command.
func Start(s Spec) (*Group, error) {
	path, err := exec.LookPath(cmp.Or(s.Path, s.Args[0]))
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Args[0], err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become reaper: %w", err)
	}
	g := &Group{reaped: make(chan struct{}, 1), done: make(chan struct{}), exited: make(chan struct{})}
	started := make(chan error, 1)
	go g.run(path, s, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Args[0], err)
	}
	return g, nil
}

// run starts the command and reaps until nothing is left. It keeps its thread:
// the kernel's death signal fires when the thread that forked ends.
func (g *Group) run(path string, s Spec, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	attr := &syscall.SysProcAttr{Setpgid: !s.SameGroup, Pdeathsig: cmp.Or(s.DeathSignal, syscall.SIGKILL)}
	if s.SameGroup {
		g.group = unix.Getpgrp()
	} else if hasTerminal(int(s.Files[0].Fd())) {
		attr.Foreground, attr.Ctty = true, 0
		g.terminal = true
	}
	fds := make([]uintptr, len(s.Files))
	for i, f := range s.Files {
		fds[i] = f.Fd()
	}
	pid, err := syscall.ForkExec(path, s.Args, &syscall.ProcAttr{Env: s.Env, Files: fds, Sys: attr})
	g.pid, g.group = pid, cmp.Or(g.group, pid)
	started <- err
	if err != nil {
		return
	}
	g.reap()
}

// hasTerminal reports whether this process is in the foreground of its
// terminal: a job in the background has none to give.
func hasTerminal(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

func (g *Group) reap() {
	defer close(g.done)
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil: // ECHILD: nothing is left
			return
		}
		if status.Stopped() {
			g.goOn(status.StopSignal())
			continue
		}
		if pid == g.pid {
			g.mu.Lock()
			g.status = status
			g.mu.Unlock()
			g.takeTerminal()
			close(g.exited)
		}
		select {
		case g.reaped <- struct{}{}:
		default:
		}
	}
}

// goOn continues a command that was suspended from the terminal: a shell that
// waits for us would not get the terminal back, and a suspended command keeps
// a scope from everybody.
func (g *Group) goOn(stopped syscall.Signal) {
	if g.terminal && stopped == syscall.SIGTSTP {
		g.Forward(syscall.SIGCONT)
	}
}

// takeTerminal makes this process the foreground again.
func (g *Group) takeTerminal() {
	if !g.terminal {
		return
	}
	// A background process that does this gets SIGTTOU unless it blocks it;
	// the Go runtime does not stop for it when it is ignored.
	_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, unix.Getpgrp()) // the terminal may be gone
}

// Exited is closed when the command itself has ended.
func (g *Group) Exited() <-chan struct{} { return g.exited }

// Done is closed when the command and everything that it left has ended.
func (g *Group) Done() <-chan struct{} { return g.done }

// Code is the command's exit code, 128+n when signal n ended it. Call it after
// Exited.
func (g *Group) Code() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.status.Signaled() {
		return 128 + int(g.status.Signal())
	}
	return g.status.ExitStatus()
}

// Signal sends sig to every descendant.
func (g *Group) Signal(sig syscall.Signal) {
	for _, pid := range descendants(os.Getpid()) {
		_ = unix.Kill(pid, sig) // it may have ended in between
	}
}

// Forward sends a signal that this process got to the command's group alone,
// as a terminal would.
func (g *Group) Forward(sig syscall.Signal) { _ = unix.Kill(-g.group, sig) } // it may have ended

// Kill ends everything and returns when nothing is left.
func (g *Group) Kill() {
	t := time.NewTicker(killPause)
	defer t.Stop()
	for {
		g.Signal(syscall.SIGKILL)
		select {
		case <-g.done:
			return
		case <-g.reaped:
		case <-t.C:
		}
	}
}
