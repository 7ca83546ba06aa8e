package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Process is one child in a process group of its own.
type Process struct {
	Name string
	Log  string // file that its output goes to
	cmd  *exec.Cmd
	gone chan struct{}
	err  error // of Wait, once gone is closed
}

// Command describes a process before it runs.
type Command struct {
	Name     string // of the log file
	Path     string
	Args     []string
	Env      []string
	Dir      string // of the log
	Detached bool   // outlive the parent
	Prepare  func(*exec.Cmd)
}

// Start runs c. Its output is appended to Dir/Name.log.
func Start(c Command) (*Process, error) {
	p := &Process{Name: c.Name, Log: filepath.Join(c.Dir, c.Name+".log"), gone: make(chan struct{})}
	out, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	p.cmd = exec.Command(c.Path, c.Args...)
	p.cmd.Env = append(os.Environ(), c.Env...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if !c.Detached {
		p.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	if c.Prepare != nil {
		c.Prepare(p.cmd)
	}
	started := make(chan error, 1)
	go func() {
		// The kernel sends the death signal when this thread ends: it is kept
		// for the child alone.
		runtime.LockOSThread()
		err := p.cmd.Start()
		out.Close()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.gone)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	return p, nil
}

// PID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Gone is closed when the process has ended.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Signal sends sig to the whole group.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := syscall.Kill(-p.PID(), sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %s: %w", p.Name, err)
	}
	return nil
}

// Pause stops the process as a suspended machine would; Resume continues it.
func (p *Process) Pause() error { return p.Signal(syscall.SIGSTOP) }

// Resume continues a paused process.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Kill ends the group at once and waits until it is gone.
func (p *Process) Kill() error {
	err := p.Signal(syscall.SIGKILL)
	<-p.gone
	return err
}

// Stop asks the process to end, kills it after ten seconds, and waits.
func (p *Process) Stop() error {
	select {
	case <-p.gone:
		return nil
	default:
	}
	if err := errors.Join(p.Signal(syscall.SIGCONT), p.Signal(syscall.SIGTERM)); err != nil {
		return err
	}
	timer := time.NewTimer(10 * time.Second)
	defer timer.Stop()
	select {
	case <-p.gone:
		return nil
	case <-timer.C:
		return errors.Join(fmt.Errorf("%s did not stop within 10 s", p.Name), p.Kill())
	}
}

// Tail returns the end of the log, for errors.
func (p *Process) Tail() string {
	const most = 2000
	text, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}
