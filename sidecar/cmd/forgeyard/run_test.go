package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/sidecartest"
)

func TestRunEndsWithTheCommandsCode(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "exit 112": 112, "kill -TERM $$": 143, "kill -KILL $$": 137} {
		p := startRun(t, s.Socket, nil, "sh", "-c", script)
		code, _ := p.end()
		require.Equal(t, want, code, "%s: %s", script, p.stderr())
		require.Equal(t, lease.Released, released(t, s).Why)
		require.Equal(t, "ended", p.status().Reason)
		require.Equal(t, want, p.status().ExitCode)
	}
}

// The codes of DESIGN 6.10 for runs whose command is never started: the last
// line says why, and so does the status file.
func TestRunCodesOfItsOwn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script func(*testing.T, *sidecartest.Sidecar)
		flags  []string
		args   []string
		code   int
		line   string
		reason string
	}{
		"busy for the whole wait": {busy, []string{"--wait", "300ms"}, nil, exitWaitTimeout,
			"forgeyard: acme/environment:prod is held by deployment web-42 on node node-b with epoch 1 since 15:04:05 UTC; its node is alive. " +
				"Wait longer (--wait), or see `forgeyard concurrency explain acme/environment:prod`", "wait-timeout"},
		"busy without a wait": {busy, nil, nil, exitWaitTimeout, "Wait longer (--wait)", "wait-timeout"},
		"blocked":             {blocked(lease.ScopeBlocked), nil, nil, exitBlocked, "forgeyard: blocked: lease X ended with 1 unknown effect", "blocked"},
		"blocked while somebody reconciles it": {func(t *testing.T, s *sidecartest.Sidecar) {
			s.Authority.Refuse(parse(t, prod), lease.Answer{
				Code: lease.Rejected, Reason: lease.ScopeBlocked, Detail: "lease X ended: expired",
				Holder: &lease.Summary{Scope: parse(t, prod), Holder: lease.Holder{Kind: lease.HolderPerson, ID: "ann"}, Alive: true},
			})
		}, []string{"--wait", "1s"}, nil, exitBlocked, "forgeyard: blocked: lease X ended: expired", "blocked"},
		"quarantined":         {blocked(lease.ScopeQuarantined), nil, nil, exitBlocked, "forgeyard: quarantined: ", "blocked"},
		"refused":             {blocked(lease.UnsupportedPolicy), nil, nil, exitRefused, "forgeyard: unsupported-requirement: ", "refused"},
		"unknown holder kind": {nil, []string{"--holder", "robot:r"}, nil, exitRefused, `holder.kind "robot"`, "refused"},
		"no such command":     {nil, nil, []string{"/no/such/command"}, exitNotStarted, "/no/such/command", "not-started"},
		"no such sidecar": {func(_ *testing.T, s *sidecartest.Sidecar) { s.Stop() }, nil, nil, exitUnreachable,
			"forgeyard: client: sidecar or authority unreachable", "unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sidecartest.Start(t, slow())
			if c.script != nil {
				c.script(t, s)
			}
			mark := filepath.Join(t.TempDir(), "ran")
			if c.args == nil {
				c.args = []string{"touch", mark}
			}
			p := startRun(t, s.Socket, c.flags, c.args...)
			code, line := p.end()
			require.Equal(t, c.code, code, p.stderr())
			require.True(t, strings.HasPrefix(line, "forgeyard: "), line)
			require.Contains(t, line, c.line)
			require.Equal(t, c.reason, p.status().Reason)
			require.Equal(t, c.code, p.status().ExitCode)
			require.NoFileExists(t, mark, "the command was started")
		})
	}
}

func busy(t *testing.T, s *sidecartest.Sidecar) { s.Authority.Other(parse(t, prod)) }

func blocked(why lease.Reason) func(*testing.T, *sidecartest.Sidecar) {
	return func(t *testing.T, s *sidecartest.Sidecar) {
		s.Authority.Refuse(parse(t, prod), lease.Answer{Code: lease.Rejected, Reason: why, Detail: "lease X ended with 1 unknown effect"})
	}
}

func TestRunRefusesMalformedArguments(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no command":     {[]string{"run", "--scope", prod}, "give it after --"},
		"no scope":       {[]string{"run", "--", "true"}, "--scope"},
		"scope":          {[]string{"run", "--scope", "prod", "--", "true"}, `"prod"`},
		"holder":         {[]string{"run", "--scope", prod, "--holder", "web", "--", "true"}, `--holder "web"`},
		"negative wait":  {[]string{"run", "--scope", prod, "--wait", "-1s", "--", "true"}, "--wait -1s"},
		"negative grace": {[]string{"run", "--scope", prod, "--kill-grace", "-1s", "--", "true"}, "--kill-grace -1s"},
		"unknown flag":   {[]string{"run", "--scop", prod, "--", "true"}, "--scop"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := run(t.Context(), c.args, process{})
			require.ErrorContains(t, err, c.says)
			require.Equal(t, exitUsage, codeOf(err))
		})
	}
}

func TestFC25_InterruptWhileWaitingEndsAtOnceAndStartsNothing(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			s := sidecartest.Start(t, slow())
			s.Authority.Other(parse(t, prod))
			mark := filepath.Join(t.TempDir(), "ran")
			p := startRun(t, s.Socket, []string{"--wait", "10m"}, "touch", mark)
			require.Equal(t, "forgeyard: waiting for acme/environment:prod: held by deployment web-42 on node node-b, epoch 1", p.hear(p.errs))
			sent := time.Now()
			require.NoError(t, p.cmd.Process.Signal(signal))
			code, line := p.end()
			require.Less(t, time.Since(sent), time.Second)
			require.Equal(t, exitInterrupted, code)
			require.Equal(t, "forgeyard: interrupted while waiting for the scope; the command was not started", line)
			require.Equal(t, "interrupted", p.status().Reason)
			s.Authority.Leave(parse(t, prod))
			next := startRun(t, s.Socket, []string{"--wait", "10s"}, "true")
			code, _ = next.end()
			require.Zero(t, code, "the scope is free for the next")
			require.NoFileExists(t, mark)
		})
	}
}

func TestRunGivesTheCommandItsEnvironment(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	p := startRun(t, s.Socket, []string{"--holder", "deployment:web-43"}, "sh", "-c", "env | grep ^FORGEYARD_ | sort")
	code, _ := p.end()
	require.Zero(t, code)
	got := map[string]string{}
	for line := range p.lines {
		name, value, _ := strings.Cut(line, "=")
		got[name] = value
	}
	require.Equal(t, prod, got["FORGEYARD_SCOPE"])
	require.Equal(t, "1", got["FORGEYARD_EPOCH"])
	require.Equal(t, released(t, s).Lease, got["FORGEYARD_LEASE"])
	require.Regexp(t, regexp.MustCompile(`^[0-9a-f]{32}$`), got["FORGEYARD_HOLD_KEY"])
	require.Equal(t, "http://127.0.0.1:9/h/"+got["FORGEYARD_HOLD_KEY"]+"/tracker/", got["FORGEYARD_URL_TRACKER"])
	left, err := strconv.Atoi(got["FORGEYARD_DEADLINE_IN_MS"])
	require.NoError(t, err)
	require.InDelta(t, (10*time.Minute - time.Second).Milliseconds(), left, 10_000)
	require.Equal(t, got["FORGEYARD_LEASE"], p.status().Lease)
}

func TestHelpHasTheExitCodes(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(t.Context(), []string{"run", "--help"}, process{Out: &out, Err: os.Stderr}))
	for _, code := range []int{exitWaitTimeout, exitSuperseded, exitLost, exitUnreachable, exitRefused, exitNotStarted, exitBlocked, exitInterrupted, exitUsage} {
		require.Regexp(t, `(?m)^  `+strconv.Itoa(code)+` +\S`, out.String())
	}
}
