package chaos_test

import (
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store/postgres/pgtest"
	"github.com/forgeyard/concurrency/e2e/cluster"
	"github.com/forgeyard/concurrency/e2e/history"
	"github.com/forgeyard/concurrency/e2e/relay"
	"github.com/forgeyard/concurrency/shared/guard"
)

// node is one sidecar with what stands between it and the world.
type node struct {
	sync.Mutex // one fault at a time
	*cluster.Sidecar
	name  string
	paths []*relay.Relay // to each authority
	disk  string         // what its sidecar sees: backing, through slow
	back  string         // a small tmpfs of its own
	slow  *slowDisk
}

// replica is one authority with its way to the database.
type replica struct {
	sync.Mutex
	*cluster.Authority
	db *relay.Relay
}

// database is the Postgres that is in charge, its standby, and an old dump.
type database struct {
	sync.Mutex
	primary, standby *pgtest.Server
	name             string
	clock            string // file that the servers' clock is stepped with
	env              []string
	pooler           *pooler // nil: reached directly
	dump             []byte
}

// world is a whole installation inside one network namespace.
type world struct {
	t        *testing.T
	dir      string
	opts     cluster.Options
	history  *history.History
	db       *database
	replicas []*replica
	nodes    []*node
	upstream string
}

func build(t *testing.T, bin string, pooled bool) *world {
	dir, err := os.MkdirTemp("/tmp", "fy-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	w := &world{t: t, dir: dir, opts: cluster.Options{Bin: bin, Dir: dir}, history: history.New(time.Now())}
	t.Cleanup(w.remove)
	srv := httptest.NewServer(&upstream{guard: guard.New(guard.NewMemory()), history: w.history})
	t.Cleanup(srv.Close)
	w.upstream = srv.URL
	w.startDatabase(pooled)
	for i := range authorities {
		w.addReplica(i)
	}
	for i := range sidecars {
		w.addNode(fmt.Sprintf("node-%c", 'a'+i))
	}
	return w
}

// remove stops everything; after a failure the logs stay.
func (w *world) remove() {
	for _, n := range w.nodes {
		n.Sidecar.Kill()
		for _, p := range n.paths {
			p.Close()
		}
	}
	for _, r := range w.replicas {
		r.Authority.Kill()
		r.db.Close()
	}
	if w.db != nil {
		w.db.stop()
	}
	for _, n := range w.nodes {
		n.slow.unmount()
		syscall.Unmount(n.back, syscall.MNT_DETACH)
	}
	if w.t.Failed() {
		w.t.Logf("logs are kept in %s", w.dir)
		return
	}
	os.RemoveAll(w.dir)
}

func (w *world) startDatabase(pooled bool) {
	t := w.t
	d := &database{clock: filepath.Join(w.dir, "clock")}
	w.db = d
	require.NoError(t, os.WriteFile(d.clock, []byte("+0\n"), 0o644))
	lib, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	require.NotEmpty(t, lib, "libfaketime is missing: run `make deps`")
	d.env = []string{"LD_PRELOAD=" + lib[0], "FAKETIME_TIMESTAMP_FILE=" + d.clock, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1"}
	var err error
	d.primary, err = pgtest.New(t.Context(), pgtest.Options{Env: d.env})
	require.NoError(t, err)
	url := d.primary.Database(discard{t})
	d.name = url[strings.LastIndex(url, "/")+1 : strings.Index(url, "?")]
	d.standby, err = pgtest.New(t.Context(), pgtest.Options{Env: d.env, Basebackup: d.primary})
	require.NoError(t, err)
	if pooled {
		d.pooler, err = startPooler(w.dir, d.primary.Port)
		require.NoError(t, err)
	}
}

// discard keeps a database from being dropped with the test: its server may
// be gone by then.
type discard struct{ *testing.T }

// Cleanup implements testing.TB.
func (discard) Cleanup(func()) {}

// address is where the authorities' relays lead to.
func (d *database) address() string {
	port := d.primary.Port
	if d.pooler != nil {
		port = d.pooler.port
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

func (d *database) stop() {
	if d.pooler != nil {
		d.pooler.stop()
	}
	for _, s := range []*pgtest.Server{d.standby, d.primary} {
		if s != nil {
			s.Signal(syscall.SIGCONT)
			s.Stop()
		}
	}
}

// step sets the clock of every server of the database.
func (d *database) step(by time.Duration) error {
	return os.WriteFile(d.clock, []byte(fmt.Sprintf("%+.3f\n", by.Seconds())), 0o644)
}

func policyFile() map[string]any {
	return map[string]any{"version": 1, "rules": []any{
		map[string]any{"match": "acme/environment:free-*", "why": "half of the load", "on_unclean_end": "free"},
		map[string]any{"match": "acme/environment:rec-*", "why": "half of the load", "on_unclean_end": "reconcile"},
	}}
}

func (w *world) addReplica(i int) {
	t := w.t
	db, err := relay.New(w.db.address())
	require.NoError(t, err)
	serving := cluster.Serving{
		PostgresURL: fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", db.Addr, w.db.name), Policy: policyFile(), Replica: i,
		Timing: map[string]any{"max_ttl": maxTTL.String(), "lock_delay": lockDelay.String(), "interval": "1s", "sweep": "300ms", "sweep_grace": ttl.String()},
	}
	if i > 0 {
		serving.Of = w.replicas[0].Authority
	}
	a, err := cluster.ServeAuthority(t.Context(), w.opts, serving)
	require.NoError(t, err)
	w.replicas = append(w.replicas, &replica{Authority: a, db: db})
}

func (w *world) addNode(name string) {
	t := w.t
	n := &node{name: name, disk: filepath.Join(w.dir, name), back: filepath.Join(w.dir, "disk-"+name)}
	require.NoError(t, errors.Join(os.MkdirAll(n.disk, 0o700), os.MkdirAll(n.back, 0o700)))
	require.NoError(t, syscall.Mount("tmpfs", n.back, "tmpfs", 0, "size=24m"))
	var addresses []string
	var err error
	n.slow, err = mountSlowDisk(n.back, n.disk)
	require.NoError(t, err)
	for _, r := range w.replicas {
		p, err := relay.New(r.Nodes)
		require.NoError(t, err)
		n.paths, addresses = append(n.paths, p), append(addresses, p.Addr)
	}
	n.Sidecar, err = cluster.StartSidecar(t.Context(), w.opts, w.replicas[0].Authority, cluster.SidecarConfig{
		Node: name, Addresses: addresses, Settle: time.Second,
		Providers: []cluster.Provider{{Name: "target", URL: w.upstream}},
		Session: cluster.Session{
			TTL: ttl, Interval: 300 * time.Millisecond, UncertainAfter: 800 * time.Millisecond, KillGrace: 300 * time.Millisecond, Margin: margin,
		},
	})
	require.NoError(t, err)
	w.nodes = append(w.nodes, n)
}

// pooler is a PgBouncer in transaction mode.
type pooler struct {
	port int
	ini  string
	done chan struct{} // closed to end it

	mu      sync.Mutex
	process *cluster.Process
	deaths  int // by itself: it has defects of its own
}

func startPooler(dir string, server int) (*pooler, error) {
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		return nil, fmt.Errorf("%w: run `make deps`", err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &pooler{port: ln.Addr().(*net.TCPAddr).Port, ini: filepath.Join(dir, "pgbouncer.ini")}
	ln.Close()
	users := filepath.Join(dir, "users.txt")
	if err := errors.Join(os.WriteFile(users, []byte("\"postgres\" \"\"\n"), 0o644), p.configure(server, users)); err != nil {
		return nil, err
	}
	p.done = make(chan struct{})
	return p, p.run(cluster.Command{
		Name: "pgbouncer", Path: bin, Args: []string{p.ini}, Dir: dir,
		Prepare: func(c *exec.Cmd) { c.SysProcAttr.Credential = postgresUser() }, // it refuses root
	})
}

// run keeps the pooler alive, as a service manager does.
func (p *pooler) run(c cluster.Command) error {
	process, err := cluster.Start(c)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.process = process
	p.mu.Unlock()
	go func() {
		select {
		case <-p.done:
		case <-process.Gone():
			p.mu.Lock()
			p.deaths++
			p.mu.Unlock()
			_ = p.run(c)
		}
	}()
	return nil
}

func (p *pooler) stop() {
	close(p.done)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.process.Kill()
}

func (p *pooler) configure(server int, users string) error {
	return os.WriteFile(p.ini, []byte(strings.Join([]string{
		"[databases]", fmt.Sprintf("* = host=127.0.0.1 port=%d", server), "[pgbouncer]", "listen_addr = 127.0.0.1",
		fmt.Sprintf("listen_port = %d", p.port), "unix_socket_dir =", "auth_type = trust", "auth_file = " + users, "pool_mode = transaction",
		"default_pool_size = 10", "server_login_retry = 1", "",
	}, "\n")), 0o644)
}

// lead makes the pooler speak to another server.
func (p *pooler) lead(server int) error {
	if err := p.configure(server, filepath.Join(filepath.Dir(p.ini), "users.txt")); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process.Signal(syscall.SIGHUP)
}
