package localapi_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/localapi"
	"github.com/forgeyard/concurrency/sidecar/sidecartest"
)

func TestSocketIsPrivateAndNotTakenFromALivingOne(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	first, err := localapi.Listen(path)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	_, err = localapi.Listen(path)
	require.ErrorContains(t, err, "another process answers there")
	require.NoError(t, first.Close()) // the file stays, as after kill -9
	second, err := localapi.Listen(path)
	require.NoError(t, err, "nobody answers: it is stale")
	require.NoError(t, second.Close())
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary directory is left")
}

func TestBadInputNamesFieldAndValueAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	const other = "00000000000000000000000000000001"
	for name, c := range map[string]struct {
		path, body string
		status     int
		says       []string
	}{
		"scope without kind":   {"/v1/acquire", `{"scope":"acme/prod"}`, 400, []string{"acme/prod"}},
		"no scope":             {"/v1/acquire", `{}`, 400, []string{"scope"}},
		"unknown field":        {"/v1/acquire", `{"scope":"acme/environment:prod","ttl":"5s"}`, 400, []string{"ttl"}},
		"not JSON":             {"/v1/acquire", `{"scope":`, 400, []string{"unexpected"}},
		"negative wait":        {"/v1/acquire", `{"scope":"acme/environment:prod","wait":"-1s"}`, 400, []string{"wait", "-1s"}},
		"endless wait":         {"/v1/acquire", `{"scope":"acme/environment:prod","wait":"700000s"}`, 400, []string{"wait", "168h"}},
		"unknown holder kind":  {"/v1/acquire", `{"scope":"acme/environment:prod","holder":{"kind":"robot","id":"r"}}`, 400, []string{"holder.kind", "robot", "deployment"}},
		"holder without id":    {"/v1/acquire", `{"scope":"acme/environment:prod","holder":{"kind":"run"}}`, 400, []string{"holder.id"}},
		"pid beside detach":    {"/v1/acquire", `{"scope":"acme/environment:prod","pid":1,"detach":"5s"}`, 400, []string{"pid", "detach"}},
		"no such process":      {"/v1/acquire", `{"scope":"acme/environment:prod","pid":4194305}`, 400, []string{"pid", "4194305"}},
		"negative pid":         {"/v1/acquire", `{"scope":"acme/environment:prod","pid":-1}`, 400, []string{"pid", "-1"}},
		"detach of nothing":    {"/v1/acquire", `{"scope":"acme/environment:prod","detach":"0s"}`, 400, []string{"detach", "0s"}},
		"command id":           {"/v1/acquire", `{"scope":"acme/environment:prod","command_id":"again"}`, 400, []string{"command_id", "again", "ULID"}},
		"stream with pid":      {"/v1/hold", `{"scope":"acme/environment:prod","pid":1}`, 400, []string{"pid", "stream"}},
		"stream unknown field": {"/v1/hold", `{"scope":"acme/environment:prod","ttl":"5s"}`, 400, []string{"ttl"}},
		"body too large":       {"/v1/hold", `{"scope":"` + strings.Repeat("x", 2<<20) + `"}`, 400, []string{"too large"}},
		"malformed key":        {"/v1/release", `{"hold_key":"sesame"}`, 400, []string{"32 hexadecimal digits"}},
		"no such hold":         {"/v1/release", `{"hold_key":"` + other + `"}`, 404, []string{"no such hold"}},
		"watch malformed key":  {"/v1/watch?hold_key=sesame", "", 400, []string{"32 hexadecimal digits"}},
		"watch no such hold":   {"/v1/watch?hold_key=" + other, "", 404, []string{"no such hold"}},
		"attach to no hold":    {"/v1/hold", `{"hold_key":"` + other + `"}`, 404, []string{"no such hold"}},
		"effects of no state":  {"/v1/effects?state=lost-in-space", "", 400, []string{"state", "lost-in-space", "unknown"}},
		"negative limit":       {"/v1/effects?limit=-1", "", 400, []string{"limit", "-1"}},
		"effects of no scope":  {"/v1/effects?scope=prod", "", 400, []string{"prod"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, text := call(t, s, c.path, c.body)
			require.Equal(t, c.status, code, text)
			for _, word := range c.says {
				require.Contains(t, text, word)
			}
			require.NotContains(t, text, "sesame", "a key is never repeated")
			require.NotContains(t, text, other)
			require.Empty(t, s.Authority.Releases())
		})
	}
}

func TestFC85_RefusalNamesHolderEpochSinceLivenessAndWhatToDo(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	s.Authority.Other(parse(t, "acme/environment:prod"))
	code, text := call(t, s, "/v1/acquire", prod)
	require.Equal(t, http.StatusBadRequest, code)
	var problem struct {
		Message string `json:"message"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &problem))
	require.Equal(t, "acme/environment:prod is held by deployment web-42 on node node-b with epoch 1 since 15:04:05 UTC; "+
		"its node is alive. Wait for it (wait), or see `forgeyard concurrency explain acme/environment:prod`", problem.Message)
}

func TestStreamHoldTellsEveryChangeUpToItsRelease(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	p := startController(t, s, "/v1/hold", prod)
	owned := p.until("owned")
	require.Equal(t, "1", owned.Epoch, "as a decimal string")
	code, text := call(t, s, "/v1/release", `{"hold_key":"`+owned.HoldKey+`"}`)
	require.Equal(t, http.StatusOK, code, text)
	require.True(t, p.until("unowned").Final)
	require.NoError(t, p.cmd.Wait(), "the stream ends by itself")
	require.Equal(t, lease.Released, released(t, s).Why)
}

func TestFC27_LossTellsByWhomAndWhy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		why       lease.EndReason
		by        string
		succeeded bool
		reason    string
	}{
		"taken over":      {lease.Superseded, "authority", true, "superseded"},
		"by a person":     {lease.ForceReleased, "maria", false, "revoked"},
		"by the ttl":      {lease.Expired, "authority", false, "expired"},
		"ttl, then other": {lease.Expired, "authority", true, "superseded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sidecartest.Start(t, slow())
			p := startController(t, s, "/v1/hold", prod)
			p.until("owned")
			s.Authority.Take(parse(t, "acme/environment:prod"), c.why, c.by, "the rack is on fire", c.succeeded)
			lost := p.until("lost")
			require.Equal(t, c.reason, lost.Reason)
			require.True(t, lost.Final)
			if c.reason == "revoked" {
				require.Equal(t, "released by maria: the rack is on fire", lost.Detail)
			}
			if c.succeeded {
				require.Equal(t, "2", lost.Holder.Epoch)
				require.Equal(t, "node-b", lost.Holder.Node)
			} else {
				require.Nil(t, lost.Holder)
			}
		})
	}
}

// Root can open everybody's socket, so what another user may do is decided by
// the door.
func TestHoldsOfAnotherUserAreSeenByRootAndUsedByNobodyElse(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		require.Empty(t, os.Getenv("CI"), "this test needs root")
		t.Skip("needs root to start a process of another user")
	}
	s := sidecartest.Start(t, slow())
	require.NoError(t, os.Chmod(filepath.Dir(s.Socket), 0o755))
	require.NoError(t, os.Chmod(s.Socket, 0o666))
	program := filepath.Join(t.TempDir(), "controller") // where that user can reach it
	self, err := os.Executable()
	require.NoError(t, err)
	text, err := os.ReadFile(self)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, text, 0o755))
	for dir := filepath.Dir(program); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	p := startController(t, s, "/v1/hold", prod, func(c *exec.Cmd) {
		c.Path, c.SysProcAttr = program, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	})
	owned := p.until("owned")
	for _, c := range [][2]string{
		{"/v1/release", `{"hold_key":"` + owned.HoldKey + `"}`}, {"/v1/hold", `{"hold_key":"` + owned.HoldKey + `"}`}, {"/v1/watch?hold_key=" + owned.HoldKey, ""},
	} {
		code, text := call(t, s, c[0], c[1])
		require.Equal(t, http.StatusNotFound, code, text)
	}
	code, status := call(t, s, "/v1/status", "")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, status, owned.Lease, "root sees it")
	require.NotContains(t, status, owned.HoldKey, "without its key")
	require.Empty(t, s.Authority.Releases())
}
