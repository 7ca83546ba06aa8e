package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is one running Postgres.
type Server struct {
	Dir  string // holds data/, the socket and the log
	Port int
	bin  string
	cred *syscall.Credential
	cmd  *exec.Cmd
	log  *logBuffer
	env  []string
	// sweep is held open for as long as the server may run.
	sweep io.Closer
}

// logBuffer is written by a former server of the same directory while the next
// one starts.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns what was written so far.
func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// ErrMissing is what a machine without Postgres is told.
var ErrMissing = errors.New("pgtest: no Postgres server binaries found: run `make deps` (installs the package postgresql)")

// BinDir finds the server's binaries: pg_config, then Debian's layout.
func BinDir() (string, error) {
	var candidates []string
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		candidates = append(candidates, strings.TrimSpace(string(out)))
	}
	debian, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	sort.Sort(sort.Reverse(sort.StringSlice(debian)))
	for _, dir := range append(candidates, debian...) {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
			return dir, nil
		}
	}
	return "", ErrMissing
}

// Options change how a server runs. The zero value is a primary as for
// production: fsync on.
type Options struct {
	Settings   map[string]string // of postgresql.conf
	Env        []string          // added to the server's environment, for example LD_PRELOAD
	Basebackup *Server           // start as a copy of this server, in recovery as its standby
}

// New makes and starts a server that the caller must Stop.
func New(ctx context.Context, opts Options) (*Server, error) {
	bin, err := BinDir()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "forgeyard-pg-")
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	sweep, err := sweepAfter(dir)
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	s := &Server{Dir: dir, bin: bin, log: &logBuffer{}, env: opts.Env, sweep: sweep}
	if err := s.create(ctx, opts); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	if err := s.Start(ctx); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

func (s *Server) create(ctx context.Context, opts Options) error {
	if err := s.dropRoot(); err != nil {
		return err
	}
	var err error
	if s.Port, err = freePort(); err != nil {
		return err
	}
	args := []string{"initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"}
	if p := opts.Basebackup; p != nil {
		args = []string{"pg_basebackup", "-D", s.data(), "-h", p.Dir, "-p", strconv.Itoa(p.Port), "-U", "postgres", "-R", "-X", "stream", "-c", "fast", "--no-sync"}
	}
	if err := s.run(ctx, args...); err != nil {
		return err
	}
	conf := fmt.Sprintf("\nport = %d\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '%s'\nmax_connections = 200\nshared_buffers = 32MB\nlog_min_messages = warning\n", s.Port, s.Dir)
	for k, v := range opts.Settings {
		conf += fmt.Sprintf("%s = '%s'\n", k, v)
	}
	f, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(conf)
	return errors.Join(err, f.Close())
}

// freePort finds a port below the range that the kernel gives to outgoing
// connections: it must stay free while the server is being restarted. Package
// cluster takes its ports from above 24,000, so that a server never gets that
// of a process which was killed and comes back.
func freePort() (int, error) {
	var err error
	for range 50 {
		port := 15_000 + rand.N(9_000)
		var ln net.Listener
		if ln, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, ln.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}

// dropRoot prepares to run as the user postgres when we are root.
func (s *Server) dropRoot() error {
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return fmt.Errorf("%w: no user postgres to drop root to", ErrMissing)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	s.cred = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(s.Dir, uid, gid)
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

func (s *Server) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, args[0]), args[1:]...)
	cmd.Dir = s.Dir
	cmd.Env = append(os.Environ(), s.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.cred, Setpgid: true}
	return cmd
}

func (s *Server) run(ctx context.Context, args ...string) error {
	if out, err := s.command(ctx, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", args[0], err, out)
	}
	return nil
}

// Start starts the server and waits until it accepts connections.
func (s *Server) Start(ctx context.Context) error {
	started := make(chan error, 1)
	go func() {
		// The kernel kills the server when this thread ends, which is when the
		// test process does: the thread is kept for the server alone.
		runtime.LockOSThread()
		cmd := s.command(context.Background(), "postgres", "-D", s.data())
		cmd.SysProcAttr.Pdeathsig = syscall.SIGQUIT
		cmd.Stdout, cmd.Stderr = io.Discard, s.log
		s.cmd = cmd
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("pgtest: start: %w", err)
	}
	return s.awaitReady(ctx)
}

// awaitReady polls: a server has no other sign of being ready that works for
// standbys too. It is the one place of the harness that does.
func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("pgtest: server does not get ready: %w: %s", err, s.log)
		case <-tick.C:
		}
	}
}

// URL names a database of the server over loopback TCP.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.Port, database)
}

// Kill ends every process of the server at once, as kill -9 does.
func (s *Server) Kill() {
	pids := s.processes()
	signalAll(pids, syscall.SIGKILL)
	awaitGone(pids)
}

// Signal sends a signal to every process of the server.
func (s *Server) Signal(sig syscall.Signal) { signalAll(s.processes(), sig) }

// processes are the postmaster and its children. They are in no common group:
// every child of a postmaster begins a session of its own.
func (s *Server) processes() []int {
	pid := s.cmd.Process.Pid
	pids := []int{pid}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is well formed
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread ended
		}
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// signalAll reaches the postmaster first, so that it replaces nobody.
func signalAll(pids []int, sig syscall.Signal) {
	for _, pid := range pids {
		syscall.Kill(pid, sig)
	}
}

// awaitGone waits until none of the processes runs; one that nobody reaped is
// as good as gone.
func awaitGone(pids []int) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for _, pid := range pids {
		for running(pid) {
			<-tick.C
		}
	}
}

func running(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(state, "Z")
}

// Promote makes a standby a primary and waits until it is one.
func (s *Server) Promote(ctx context.Context) error {
	return s.run(ctx, "pg_ctl", "promote", "-D", s.data(), "-w")
}

// Stop ends the server and removes its files.
func (s *Server) Stop() {
	if s.cmd != nil && s.cmd.Process != nil {
		s.Kill()
	}
	os.RemoveAll(s.Dir)
	s.sweep.Close()
}

// shared is the one server of this test process.
var shared = sync.OnceValues(func() (*Server, error) { return New(context.Background(), Options{}) })

// Database makes an empty database on the server of this test process and
// returns its URL. It is dropped with the test.
func Database(t testing.TB) string {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s.Database(t)
}

// Database makes an empty database that is dropped with the test.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("t%d_%d", os.Getpid(), time.Now().UnixNano())
	exec := func(sql string) error {
		ctx := context.Background()
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, sql)
		return err
	}
	if err := exec("CREATE DATABASE " + name); err != nil {
		t.Fatalf("pgtest: create database: %v", err)
	}
	t.Cleanup(func() {
		if err := exec("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Logf("pgtest: drop database: %v", err)
		}
	})
	return s.URL(name)
}
