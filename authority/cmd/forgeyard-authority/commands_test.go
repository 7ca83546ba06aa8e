package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/identity"
)

// configured writes a configuration that is fine and returns its path with a
// function that replaces a text in it.
func configured(t *testing.T) (path string, with func(old, text string) string) {
	t.Helper()
	dir := t.TempDir()
	ca, err := identity.NewCA(time.Now(), identity.DefaultTrustDomain)
	require.NoError(t, err)
	require.NoError(t, ca.Save(dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "receipt.key"), []byte(strings.Repeat("ab", 32)), 0o600))
	text := strings.ReplaceAll(`
store:
  kind: sqlite
  path: DIR/a/authority.db
  memory_path: DIR/b/outside
listen: {nodes: "127.0.0.1:0", people: "127.0.0.1:0", ops: "127.0.0.1:0"}
tls:
  certificate: DIR/ca.pem
  key: DIR/ca-key.pem
  ca: DIR/ca.pem
receipt_key_file: DIR/receipt.key
timing:
  max_ttl: 1m
  lock_delay: 2500ms
  sweep: 1s
policy:
  rules:
    - match: acme/environment:*
      on_unclean_end: free
      lock_delay: 3s
people:
  tokens:
    - name: sre
      sha256: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
      roles: [concurrency.read]
      tenants: [acme]
`, "DIR", dir)
	path = filepath.Join(dir, "config.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path, func(old, replacement string) string {
		require.Contains(t, text, old)
		changed := filepath.Join(t.TempDir(), "changed.yaml")
		require.NoError(t, os.WriteFile(changed, []byte(strings.Replace(text, old, replacement, 1)), 0o600))
		return changed
	}
}

func check(t *testing.T, environ []string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), append([]string{"check-config"}, args...), environ, &out)
	return out.String(), err
}

func TestCheckConfigSaysOKOrEveryProblem(t *testing.T) {
	t.Parallel()
	path, with := configured(t)
	out, err := check(t, nil, "-c", path)
	require.NoError(t, err)
	require.Equal(t, "OK\n", out)

	for name, tc := range map[string]struct{ old, text, want string }{
		"unknown key":       {"kind: sqlite", "kind: sqlite\n  pat: x", "pat"},
		"unknown kind":      {"kind: sqlite", "kind: mysql", `store.kind: "mysql": must be sqlite or postgres`},
		"same directory":    {"/b/outside", "/a/outside", "store.memory_path"},
		"ttl below floor":   {"max_ttl: 1m", "max_ttl: 1s", "timing.max_ttl: 1s: must be at least 2s"},
		"no unit":           {"max_ttl: 1m", "max_ttl: 60", "timing.max_ttl"},
		"sweep":             {"sweep: 1s", "sweep: 5s", "timing.sweep: 5s: must be below timing.interval 3s"},
		"policy lock delay": {"lock_delay: 3s", "lock_delay: 1s", "policy.rules[0].lock_delay: 1s: must not be below timing.lock_delay 2.5s"},
		"policy value":      {"on_unclean_end: free", "on_unclean_end: maybe", `policy.rules[0].on_unclean_end: "maybe"`},
		"policy ttl":        {"on_unclean_end: free", "min_ttl: 1s", "policy.rules[0].min_ttl: 1s: must be at least 2s"},
		"missing file":      {"/receipt.key", "/nowhere", "receipt_key_file"},
		"address":           {`ops: "127.0.0.1:0"`, `ops: "127"`, `listen.ops: "127": must be host:port`},
		"token":             {"sha256: aa", "sha256: zz", "people.tokens[0].sha256: must be 64 hexadecimal digits"},
		"role":              {"[concurrency.read]", "[root]", `people.tokens[0].roles: "root": must be one of`},
	} {
		_, err := check(t, nil, "-c", with(tc.old, tc.text))
		require.ErrorContains(t, err, tc.want, name)
	}
	_, err = check(t, nil)
	for _, want := range []string{"store.path", "tls.certificate", "tls.ca", "receipt_key_file"} {
		require.ErrorContains(t, err, want, "all of them at once")
	}
}

func TestEnvironmentAndFlagsOverrideTheFile(t *testing.T) {
	t.Parallel()
	path, _ := configured(t)
	out, err := check(t, []string{"FORGEYARD_AUTHORITY_TIMING_MAX_TTL=45s", "OTHER=x"}, "-c", path, "--print", "--log.level", "debug")
	require.NoError(t, err)
	require.Contains(t, out, "max_ttl: 45s")
	require.Contains(t, out, "level: debug")
	_, err = check(t, []string{"FORGEYARD_AUTHORITY_TIMING_MAXTTL=45s"}, "-c", path)
	require.ErrorContains(t, err, "FORGEYARD_AUTHORITY_TIMING_MAXTTL")
}

func TestPrintShowsNoSecret(t *testing.T) {
	t.Parallel()
	path, _ := configured(t)
	out, err := check(t, []string{
		"FORGEYARD_AUTHORITY_STORE_KIND=postgres", "FORGEYARD_AUTHORITY_STORE_URL=postgres://fy:hunter2@db:5432/fy",
	}, "-c", path, "--print")
	require.NoError(t, err)
	require.NotContains(t, out, "hunter2")
	require.Contains(t, out, "postgres://fy:xxxxx@db:5432/fy")
}

func TestDevServesOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	err := run(t.Context(), []string{"dev", "--data-dir", t.TempDir(), "--listen-people", "0.0.0.0:0"}, nil, os.Stdout)
	require.ErrorContains(t, err, `listen.people: "0.0.0.0:0": dev listens on loopback only`)
	err = run(t.Context(), []string{"dev"}, nil, os.Stdout)
	require.ErrorContains(t, err, "data-dir")
}

type readyFile struct {
	Nodes, People, Ops, CA string
	AdminTokenFile         string `json:"admin_token_file"`
	JoinTokenFile          string `json:"join_token_file"`
	OperatorConfig         string `json:"operator_config"`
}

// startDev runs dev until the returned stop is called; stop returns its error.
func startDev(t *testing.T, dir string, args ...string) (readyFile, func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, append([]string{"dev", "--data-dir", dir, "--log.level", "error"}, args...), nil, os.Stdout)
	}()
	var r readyFile
	deadline := time.Now().Add(20 * time.Second)
	for {
		text, err := os.ReadFile(filepath.Join(dir, "ready.json"))
		if err == nil {
			require.NoError(t, json.Unmarshal(text, &r), "it is written whole")
			break
		}
		select {
		case err := <-done:
			t.Fatalf("dev ended: %v", err)
		default:
			require.True(t, time.Now().Before(deadline), "dev does not serve")
		}
	}
	return r, func() error {
		cancel()
		return <-done
	}
}

func TestDevFromNothingToServingAndBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(policy, []byte("rules:\n- match: acme/environment:prod\n  on_unclean_end: free\n  why: the demo\n"), 0o600))
	r, stop := startDev(t, dir, "--policy-file", policy)
	resp, err := http.Get("http://" + r.Ops + "/readyz")
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	for _, file := range []string{r.AdminTokenFile, r.JoinTokenFile, r.OperatorConfig} {
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), file)
	}
	first := authorityID(t, r)
	require.NoError(t, stop())
	_, err = os.Stat(filepath.Join(dir, "ready.json"))
	require.ErrorIs(t, err, os.ErrNotExist)

	r, stop = startDev(t, dir)
	require.Equal(t, first, authorityID(t, r), "what it made is kept, the admin's token too")
	require.NoError(t, stop())
}

func authorityID(t *testing.T, r readyFile) string {
	t.Helper()
	pool, err := identity.LoadPool(r.CA)
	require.NoError(t, err)
	token, err := os.ReadFile(r.AdminTokenFile)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+r.People+"/v1/concurrency/status", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}}}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var status struct {
		AuthorityID string `json:"authority_id"`
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&status))
	require.NotEmpty(t, status.AuthorityID)
	return status.AuthorityID
}

func TestSecondAuthorityOnOneFileIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, stop := startDev(t, dir)
	err := run(t.Context(), []string{"dev", "--data-dir", dir}, nil, os.Stdout)
	require.ErrorContains(t, err, "in use by another process")
	require.NoError(t, stop())
}
