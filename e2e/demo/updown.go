package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/forgeyard/concurrency/e2e/cluster"
	"github.com/forgeyard/concurrency/e2e/provider"
)

// running is what up leaves for down.
type running struct {
	PIDs []int `json:"pids"`
}

// up starts a stack that outlives this process and prints how to use it.
func up(ctx context.Context, bin, dir string, out io.Writer) (err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists: a stack may be running; end it with `make down`", dir)
	} else if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	s := &stack{opts: cluster.Options{Bin: bin, Dir: dir, Detached: true}}
	var web *cluster.Process
	defer func() {
		if err != nil {
			if web != nil {
				err = errors.Join(err, web.Stop())
			}
			err = errors.Join(err, s.close(), os.RemoveAll(dir))
		}
	}()
	web, addr, err := startProvider(ctx, dir)
	if err != nil {
		return err
	}
	if err := s.start(ctx, addr); err != nil {
		return err
	}
	text, err := json.Marshal(running{PIDs: []int{s.a.PID(), s.b.PID(), s.authority.PID(), web.PID()}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "stack.json"), text, 0o600); err != nil {
		return fmt.Errorf("write stack.json: %w", err)
	}
	s.explain(out, addr)
	return nil
}

func (s *stack) explain(out io.Writer, provider string) {
	fmt.Fprintf(out, `A stack is running; make down ends it.

authority   people %s   health and metrics http://%s
node-a      socket %s
node-b      socket %s
provider    http://%s, called "plans" by both sidecars

For the command of people:
  export PATH=%s:$PATH
  export FORGEYARD_CONFIG=%s
  export FORGEYARD_SOCKET=%s
`, s.authority.People, s.authority.Ops, s.a.Socket, s.b.Socket, provider, s.opts.Bin, s.authority.OperatorConfig, s.a.Socket)
}

// startProvider runs the provider as a process of its own.
func startProvider(ctx context.Context, dir string) (*cluster.Process, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	p, err := cluster.Start(cluster.Command{Name: "provider", Path: self, Args: []string{"-dir", dir, "provider"}, Dir: dir, Detached: true})
	if err != nil {
		return nil, "", err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if text, err := os.ReadFile(filepath.Join(dir, "provider.addr")); err == nil {
			return p, string(text), nil
		}
		select {
		case <-tick.C:
		case <-p.Gone():
			return p, "", fmt.Errorf("provider ended:\n%s", p.Tail())
		case <-ctx.Done():
			return p, "", ctx.Err()
		}
	}
}

// serveProvider is the provider's process.
func serveProvider(ctx context.Context, dir string) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "provider.addr")
	if err := os.WriteFile(path+".new", []byte(ln.Addr().String()), 0o600); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	srv := &http.Server{Handler: provider.New(), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { srv.Close() })()
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// down ends the processes of up, and removes what they made.
func down(dir string, out io.Writer) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "stack.json"))
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(out, "no stack is running")
		return nil
	}
	if err != nil {
		return fmt.Errorf("read stack: %w", err)
	}
	var r running
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("read stack.json: %w", err)
	}
	for _, pid := range r.PIDs {
		if err := end(pid, dir); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove files: %w", err)
	}
	fmt.Fprintln(out, "the stack has ended")
	return nil
}

// end stops a process of the stack: one whose command line names its
// directory, so that a number that was given to somebody else is left alone.
func end(pid int, dir string) error {
	ours := func() bool {
		line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		return err == nil && bytes.Contains(line, []byte(dir)) // a zombie has no command line
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ours(); <-tick.C {
		sig := syscall.SIGTERM
		if time.Since(began) > 10*time.Second {
			sig = syscall.SIGKILL
		}
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end process %d: %w", pid, err)
		}
	}
	return nil
}
