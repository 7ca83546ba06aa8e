package postgres_test

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
	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/authority/store/storetest"
)

// pooled is one database behind PgBouncer; who waits is asked directly.
type pooled struct {
	direct records
	pooler string
}

func (p pooled) Open(t testing.TB) store.Store { return open(t, p.pooler) }

func (p pooled) Waiting(t testing.TB) int64 { return p.direct.Waiting(t) }

// TestFC53_ConformanceBehindPgBouncerInTransactionMode runs the whole suite
// through a pooler that hands a server connection to another client after
// every transaction.
func TestFC53_ConformanceBehindPgBouncerInTransactionMode(t *testing.T) {
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("pgbouncer is missing: run `make deps`")
		}
		t.Skip("pgbouncer is not installed: `make deps` installs it")
	}
	cfg, err := pgx.ParseConfig(migrated(t))
	require.NoError(t, err)
	port := bouncer(t, bin, cfg.Port)
	t.Run("suite", func(t *testing.T) { // ends before the pooler does
		storetest.Run(t, func(t testing.TB) storetest.DB {
			db := migrated(t)
			behind := strings.Replace(db, fmt.Sprintf(":%d/", cfg.Port), fmt.Sprintf(":%d/", port), 1)
			return pooled{direct: records{db}, pooler: behind}
		})
	})
}

// bouncer starts a PgBouncer in front of the server and returns its port.
func bouncer(t testing.TB, bin string, server uint16) int {
	t.Helper()
	dir, err := os.MkdirTemp("", "forgeyard-bouncer-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	ini, users := filepath.Join(dir, "pgbouncer.ini"), filepath.Join(dir, "users.txt")
	require.NoError(t, os.WriteFile(users, []byte("\"postgres\" \"\"\n"), 0o644))
	require.NoError(t, os.WriteFile(ini, []byte(strings.Join([]string{
		"[databases]", fmt.Sprintf("* = host=127.0.0.1 port=%d", server), "[pgbouncer]", "listen_addr = 127.0.0.1",
		fmt.Sprintf("listen_port = %d", port), "unix_socket_dir =", "auth_type = trust", "auth_file = " + users, "pool_mode = transaction",
		"default_pool_size = 6", "max_client_conn = 500", "",
	}, "\n")), 0o644))
	cmd := exec.Command(bin, ini)
	log := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: unprivileged(t)}
	require.NoError(t, cmd.Start())
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
	require.NoError(t, err)
	uid, err := strconv.Atoi(u.Uid)
	require.NoError(t, err)
	gid, err := strconv.Atoi(u.Gid)
	require.NoError(t, err)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
