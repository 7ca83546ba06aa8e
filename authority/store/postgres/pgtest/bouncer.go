package pgtest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Bouncer starts a PgBouncer in transaction mode in front of the server on that
// port, for the length of the test, and returns its own port. It hands a server
// connection to another client after every transaction. Without PgBouncer the
// test is skipped, but not in CI.
func Bouncer(t testing.TB, server uint16) int {
	t.Helper()
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("pgbouncer is missing: run `make deps`")
		}
		t.Skip("pgbouncer is not installed: `make deps` installs it")
	}
	dir, err := os.MkdirTemp("", "forgeyard-bouncer-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	port := ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	ini, users := filepath.Join(dir, "pgbouncer.ini"), filepath.Join(dir, "users.txt")
	must(t, os.WriteFile(users, []byte("\"postgres\" \"\"\n"), 0o644))
	must(t, os.WriteFile(ini, []byte(strings.Join([]string{
		"[databases]", fmt.Sprintf("* = host=127.0.0.1 port=%d", server), "[pgbouncer]", "listen_addr = 127.0.0.1",
		fmt.Sprintf("listen_port = %d", port), "unix_socket_dir =", "auth_type = trust", "auth_file = " + users, "pool_mode = transaction",
		"default_pool_size = 6", "max_client_conn = 500", "",
	}, "\n")), 0o644))
	cmd := exec.Command(bin, ini)
	log := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: unprivileged(t)}
	must(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("pgbouncer: %s", log)
		}
	})
	accepting(t, fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port))
	return port
}

// accepting polls until the pooler answers: it has no other sign of readiness.
func accepting(t testing.TB, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, url)
		if err == nil {
			conn.Close(ctx)
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("pgbouncer does not answer: %v", err)
		case <-tick.C:
		}
	}
}

// unprivileged is whom PgBouncer runs as: it refuses root.
func unprivileged(t testing.TB) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	must(t, err)
	uid, err := strconv.Atoi(u.Uid)
	must(t, err)
	gid, err := strconv.Atoi(u.Gid)
	must(t, err)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
}
