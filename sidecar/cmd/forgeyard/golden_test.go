package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/sidecar/sidecartest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// forgeyard runs the program to its end.
func forgeyard(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "TZ=UTC")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestRenderedAnswers(t *testing.T) {
	t.Parallel()
	config := serveAuthority(t)
	const epoch = "18446744073709551615"
	for name, args := range map[string][]string{
		"status.txt":        {"concurrency", "status"},
		"leases.txt":        {"concurrency", "leases", "--ended"},
		"leases.json":       {"concurrency", "leases", "-o", "json"},
		"leases.yaml":       {"concurrency", "leases", "-o", "yaml"},
		"nodes.txt":         {"concurrency", "nodes"},
		"nodes-revoke.txt":  {"concurrency", "nodes", "revoke", "node-b", "--reason", "stolen"},
		"nodes-restore.txt": {"concurrency", "nodes", "restore", "node-a", "--reason", "found"},
		"nodes-remove.txt":  {"concurrency", "nodes", "remove", "node-a", "--reason", "scrapped"},
		"tokens.txt":        {"token", "list"},
		"token-revoke.txt":  {"token", "revoke", "00112233445566ff"},
		"audit.txt":         {"concurrency", "audit"},
		"effects.txt":       {"concurrency", "effects"},
		"explain.txt":       {"concurrency", "explain", prod},
		"explain.json":      {"concurrency", "explain", prod, "-o", "json"},
		"token.txt":         {"token", "create", "--tenant", "acme,globex", "--uses", "2", "--valid-for", "10m"},
		"force-release.txt": {"concurrency", "force-release", prod, "--epoch", epoch, "--reason", "web-42 hangs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errOut := forgeyard(t, append(args, "--config", config)...)
			require.Zero(t, code, errOut)
			require.Empty(t, errOut)
			golden(t, name, out)
		})
	}
}

func TestRefusalsSayWhatToDoInOneLine(t *testing.T) {
	t.Parallel()
	config := serveAuthority(t)
	dir := filepath.Dir(config)
	stranger := t.TempDir()
	require.NoError(t, os.Link(filepath.Join(dir, "ca.pem"), filepath.Join(stranger, "ca.pem")))
	text, err := os.ReadFile(config)
	require.NoError(t, err)
	address := strings.Fields(string(text))[1]
	unknown := filepath.Join(t.TempDir(), "operator.yaml")
	require.NoError(t, os.WriteFile(unknown, append(text, []byte("tokenfile: x\n")...), 0o600))
	for name, c := range map[string]struct {
		args []string
		code int
		says []string
	}{
		"wrong epoch": {[]string{"concurrency", "force-release", prod, "--epoch", "7", "--reason", "r", "--config", config}, exitRefused,
			[]string{"not released: wrong-epoch: epoch 7: the holder has 18446744073709551615; held by deployment web-42 on node-b with epoch 18446744073709551615 since 2026-01-02 15:04:05 (alive, expires in 12.3s unless renewed)"}},
		"no epoch":         {[]string{"concurrency", "force-release", prod, "--reason", "r", "--config", config}, 1, []string{`"epoch"`}},
		"no reason":        {[]string{"concurrency", "nodes", "revoke", "node-a", "--config", config}, 1, []string{`"reason"`}},
		"malformed scope":  {[]string{"concurrency", "explain", "prod", "--config", config}, 1, []string{`scope "prod"`}},
		"unknown token":    {[]string{"concurrency", "status", "--config", operatorFile(t, stranger, address, "wrong-token")}, exitRefused, []string{"refuses: the bearer token is not known"}},
		"token for ever":   {[]string{"token", "create", "--tenant", "acme", "--valid-for", "0s", "--config", config}, exitUsage, []string{"--valid-for 0s"}},
		"no configuration": {[]string{"concurrency", "status", "--config", ""}, 1, []string{"--config", "FORGEYARD_CONFIG"}},
		"unknown key":      {[]string{"concurrency", "status", "--config", unknown}, 1, []string{"tokenfile"}},
		"no authority":     {[]string{"concurrency", "status", "--config", operatorFile(t, dirWith(t, dir, "ca.pem"), "127.0.0.1:1", token)}, exitUnreachable, []string{"authority at 127.0.0.1:1 cannot be reached"}},
		"no sidecar":       {[]string{"sidecar", "status", "--socket", "/nowhere/s"}, exitUnreachable, []string{"sidecar at /nowhere/s cannot be reached"}},
		"output format":    {[]string{"sidecar", "status", "-o", "xml"}, 1, []string{`output "xml"`, "table, json or yaml"}},
		"unknown flag":     {[]string{"sidecar", "status", "--socked", "x"}, exitUsage, []string{"--socked"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errOut := forgeyard(t, c.args...)
			require.Equal(t, c.code, code, errOut)
			require.Empty(t, out)
			require.True(t, strings.HasPrefix(errOut, "forgeyard: "), errOut)
			require.Equal(t, 1, strings.Count(errOut, "\n"), errOut)
			for _, word := range c.says {
				require.Contains(t, errOut, word)
			}
			require.NotContains(t, errOut, "wrong-token", "a token is never shown")
		})
	}
}

// dirWith is a fresh directory with a file of another one.
func dirWith(t *testing.T, from, name string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Link(filepath.Join(from, name), filepath.Join(dir, name)))
	return dir
}

func TestSidecarStatusShowsHolds(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	p := startRun(t, s.Socket, []string{"--holder", "deployment:web-42"}, "sh", "-c", "echo started; exec sleep 1000")
	p.hear(p.lines)
	code, out, errOut := forgeyard(t, "sidecar", "status", "--socket", s.Socket)
	require.Zero(t, code, errOut)
	require.Regexp(t, `(?m)^node +node-a$`, out)
	require.Regexp(t, `(?m)^authority +127\.0\.0\.1:8 +connected$`, out)
	require.Regexp(t, `(?m)^acme/environment:prod +deployment web-42 +1 +owned +- +(4m59\.\ds|5m0s)`, out)
}

func TestCompletionKnowsTheCommands(t *testing.T) {
	t.Parallel()
	code, out, errOut := forgeyard(t, "__complete", "concurrency", "")
	require.Zero(t, code, errOut)
	for _, name := range []string{"effects", "explain", "force-release", "leases", "nodes", "status"} {
		require.Contains(t, out, name+"\t")
	}
}
