package scenario_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/e2e/cluster"
)

// patient is a session that outlives a restart of its sidecar.
func patient() cluster.Session {
	return cluster.Session{TTL: 15 * time.Second, Interval: time.Second, UncertainAfter: 9 * time.Second, KillGrace: 2 * time.Second, Margin: 2 * time.Second}
}

// A run goes on under the next sidecar, however the former one ended, and gives
// its scope back in order.
func TestFC104_RunGoesOnOverARestartOfItsSidecar(t *testing.T) {
	for name, end := range map[string]func(*cluster.Sidecar) error{
		"stopped": func(s *cluster.Sidecar) error { return s.Stop() }, "killed": func(s *cluster.Sidecar) error { return s.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, "sqlite")
			s := b.sidecar(cluster.SidecarConfig{Node: "node-a", Session: patient()})
			gate := filepath.Join(t.TempDir(), "gate")
			require.NoError(t, syscall.Mkfifo(gate, 0o600))
			cmd := exec.Command(filepath.Join(b.opts.Bin, "forgeyard"), "run", "--socket", s.Socket, "--scope", "acme/environment:prod", "--wait", "10s",
				"--", "sh", "-c", `echo started; cat "$0"; echo $FORGEYARD_EPOCH; exit 5`, gate)
			var errOut strings.Builder
			cmd.Stderr = &errOut
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
			lines := bufio.NewScanner(out)
			require.True(t, lines.Scan(), "%s", &errOut)
			require.NoError(t, end(s))
			require.NoError(t, s.Restart(t.Context()))
			w, err := os.OpenFile(gate, os.O_WRONLY, 0)
			require.NoError(t, err)
			require.NoError(t, w.Close())
			require.True(t, lines.Scan())
			require.Error(t, cmd.Wait())
			require.Equal(t, 5, cmd.ProcessState.ExitCode(), "%s", &errOut)
			require.Empty(t, errOut.String())
			again := exec.Command(filepath.Join(b.opts.Bin, "forgeyard"), "run", "--socket", s.Socket, "--scope", "acme/environment:prod", "--wait", "5s", "--", "true")
			text, err := again.CombinedOutput()
			require.NoError(t, err, "the scope was given back: %s", text)
		})
	}
}
