package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/e2e/cluster"
)

// shortDir is a directory whose path leaves room for the sockets in it.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "fy-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// program runs the demo as `make demo` does, with TMPDIR in the test's own
// directory, and returns what it printed.
func program(t *testing.T, bin string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "demo"), append([]string{"-bin", bin}, args...)...)
	tmp := shortDir(t)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.CombinedOutput()
	if left, globErr := filepath.Glob(filepath.Join(tmp, "*")); err == nil {
		require.NoError(t, globErr)
		require.Empty(t, left, "files are left behind")
	}
	return string(out), err
}

func programs(t *testing.T) string {
	t.Helper()
	bin, err := cluster.Programs(t.TempDir())
	require.NoError(t, err)
	return bin
}

// A paused deployer resumes after the newer deployment: both its write and its
// delete are refused, and the provider holds the newer plan.
func TestFC60_FC61_ThePausedDeployerCanNeitherWriteNorDelete(t *testing.T) {
	t.Parallel()
	out, err := program(t, programs(t))
	require.NoError(t, err, out)
	for _, want := range []string{
		"write plan 1: REFUSED with 412 lost", `delete the "old" plan: REFUSED with 412 lost`, "the provider holds plan 2",
		"BLOCKED with 423 uncertain", "with the same epoch", "writes plan 3: 204",
		// the second act
		"BLOCKED, exit code 118", "deployment deployer-C  node-a", "PUT /plans/billing  started", "the scope is open again: deployer-D owns it",
		"deployer-D writes plan 8: 204", "tries to write it again: 412 lost",
	} {
		require.Contains(t, out, want)
	}
}

func TestUpLeavesAStackThatAnswersAndDownEndsIt(t *testing.T) {
	t.Parallel()
	bin, dir := programs(t), filepath.Join(shortDir(t), "run")
	out, err := program(t, bin, "-dir", dir, "up")
	require.NoError(t, err, out)
	t.Cleanup(func() {
		cmd := exec.CommandContext(context.Background(), filepath.Join(bin, "demo"), "-dir", dir, "down")
		require.NoError(t, cmd.Run())
	})
	text, err := os.ReadFile(filepath.Join(dir, "stack.json"))
	require.NoError(t, err)
	var r running
	require.NoError(t, json.Unmarshal(text, &r))
	require.Len(t, r.PIDs, 4)

	forgeyard := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "forgeyard"), args...)
		cmd.Env = append(os.Environ(), "FORGEYARD_CONFIG="+filepath.Join(dir, "authority", "operator.yaml"), "FORGEYARD_SOCKET="+filepath.Join(dir, "node-a", "local.sock"))
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.NoError(t, err, stderr.String())
		return string(out)
	}
	// Nodes that never held anything answer too: a question must not end them.
	require.NotContains(t, forgeyard("concurrency", "effects"), "did not answer")
	require.Contains(t, forgeyard("concurrency", "nodes"), "node-b")
	forgeyard("run", "--scope", prod, "--", "true")
	require.Contains(t, forgeyard("concurrency", "explain", prod), "is free")
	again, err := program(t, bin, "-dir", dir, "up")
	require.Error(t, err)
	require.Contains(t, again, "make down")

	out, err = program(t, bin, "-dir", dir, "down")
	require.NoError(t, err, out)
	require.NoDirExists(t, dir)
	for _, pid := range r.PIDs {
		line, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		require.NotContains(t, string(line), dir)
	}
	out, err = program(t, bin, "-dir", dir, "down")
	require.NoError(t, err, out)
}
