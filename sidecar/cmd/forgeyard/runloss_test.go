package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/sidecartest"
)

// stubborn is a command with a daemon; neither ends at TERM. It says both
// pids.
func stubborn() []string {
	return []string{"sh", "-c", `trap 'echo heard TERM' TERM; (setsid sh -c 'trap "" TERM HUP; echo daemon $$; while :; do sleep 1000; done' &); echo command $$; while :; do sleep 1000 & wait; done`}
}

func (p *program) pids() map[string]int {
	p.t.Helper()
	pids := map[string]int{}
	for range 2 {
		var name string
		var pid int
		line := p.hear(p.lines)
		_, err := fmt.Sscan(line, &name, &pid)
		require.NoError(p.t, err, line)
		pids[name] = pid
	}
	p.t.Cleanup(func() {
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL) // gone, if the test passed
		}
	})
	return pids
}

func TestFC27_LossEndsTheCommandAndSaysToWhom(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		why       lease.EndReason
		succeeded bool
		code      int
		line      string
		reason    string
		holder    string
	}{
		"superseded": {lease.Superseded, true, exitSuperseded,
			"forgeyard: acme/environment:prod with epoch 1 was lost: superseded (the rack is on fire); deployment web-42 on node node-b has it with epoch 2", "superseded", "deployment:web-42"},
		"revoked": {lease.ForceReleased, false, exitLost,
			"forgeyard: acme/environment:prod with epoch 1 was lost: revoked (released by maria: the rack is on fire)", "revoked", ""},
		"expired": {lease.Expired, false, exitLost,
			"forgeyard: acme/environment:prod with epoch 1 was lost: expired (the session went silent for longer than its ttl)", "expired", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sidecartest.Start(t, slow())
			p := startRun(t, s.Socket, nil, stubborn()...)
			pids := p.pids()
			s.Authority.Take(parse(t, prod), c.why, "maria", "the rack is on fire", c.succeeded)
			code, line := p.end()
			require.Equal(t, c.code, code)
			require.Equal(t, c.line, line)
			require.Equal(t, c.reason, p.status().Reason)
			require.Equal(t, c.holder, p.status().Holder)
			for _, pid := range pids {
				require.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH, "%d outlived the hold", pid)
			}
		})
	}
}

func TestFC25_SilentAuthorityMeansTermThenKillByTheDeadline(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, sidecartest.Options{})
	p := startRun(t, s.Socket, nil, stubborn()...)
	pids := p.pids()
	s.Authority.SetSilent(true)
	require.Equal(t, "heard TERM", p.hear(p.lines), "kill_grace before the hard deadline")
	code, line := p.end()
	require.Equal(t, exitLost, code)
	require.Contains(t, line, "was lost: expired (")
	for _, pid := range pids {
		require.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH, "%d outlived the hold", pid)
	}
}

func TestFC25_DeadSidecarMeansTermThenKillByOurOwnClock(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, sidecartest.Options{})
	p := startRun(t, s.Socket, nil, stubborn()...)
	pids := p.pids()
	s.Stop()
	require.Equal(t, "heard TERM", p.hear(p.lines), "kill_grace before the hard deadline")
	code, line := p.end()
	require.Equal(t, exitLost, code)
	require.Contains(t, line, "was lost: expired (")
	for _, pid := range pids {
		require.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH, "%d outlived the hold", pid)
	}
}

func TestRestartedSidecarIsFoundAgainAndTheCommandGoesOn(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	gate := filepath.Join(t.TempDir(), "gate")
	require.NoError(t, unix.Mkfifo(gate, 0o600))
	p := startRun(t, s.Socket, nil, "sh", "-c", `echo started; cat "$0"; exit 5`, gate)
	require.Equal(t, "started", p.hear(p.lines))
	s.Stop()
	s.Run()
	open, err := os.OpenFile(gate, os.O_WRONLY, 0)
	require.NoError(t, err)
	require.NoError(t, open.Close())
	code, _ := p.end()
	require.Equal(t, 5, code, p.stderr())
	require.Empty(t, p.stderr())
	require.Equal(t, lease.Released, released(t, s).Why, "in order, over the new connection")
}

func TestFC26_FreezeOnUncertainStopsAndContinuesTheCommand(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, sidecartest.Options{})
	p := startRun(t, s.Socket, []string{"--freeze-on-uncertain"}, "sh", "-c", `echo command $$; while :; do sleep 0.02; done`)
	var name string
	var pid int
	_, err := fmt.Sscan(p.hear(p.lines), &name, &pid)
	require.NoError(t, err)
	s.Authority.SetSilent(true)
	awaitState(t, pid, "T")
	s.Authority.SetSilent(false)
	awaitState(t, pid, "S", "R")
	require.NoError(t, p.cmd.Process.Signal(unix.SIGTERM))
	code, _ := p.end()
	require.Equal(t, 143, code)
}

func TestFC104_WhatTheCommandLeavesBehindEndsBeforeTheScopeIsGivenBack(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	p := startRun(t, s.Socket, []string{"--kill-grace", "100ms"}, "sh", "-c",
		// The command ends when its daemon has said who it is.
		`mkfifo "$0"; setsid sh -c 'trap "" TERM HUP; echo daemon $$; echo >"$0"; while :; do sleep 1000; done' "$0" & read -r _ <"$0"`,
		filepath.Join(t.TempDir(), "started"))
	var name string
	var daemon int
	_, err := fmt.Sscan(p.hear(p.lines), &name, &daemon)
	require.NoError(t, err)
	r := released(t, s)
	require.ErrorIs(t, unix.Kill(daemon, 0), unix.ESRCH, "released while it still worked")
	require.Equal(t, lease.Released, r.Why)
	code, _ := p.end()
	require.Zero(t, code)
}

func TestFC12_KilledRunEndsItsHoldAndAllThatItStarted(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	p := startRun(t, s.Socket, nil, stubborn()...)
	pids := p.pids()
	require.NoError(t, p.cmd.Process.Kill())
	require.Equal(t, lease.CallerGone, released(t, s).Why)
	require.Error(t, p.cmd.Wait())
	for _, pid := range pids {
		awaitGone(t, pid)
	}
}

func TestFC104_KilledInnerSupervisorLeavesNothing(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	p := startRun(t, s.Socket, []string{"--kill-grace", "100ms"}, stubborn()...)
	pids := p.pids()
	inner := parentOf(t, pids["command"])
	require.Equal(t, p.cmd.Process.Pid, parentOf(t, inner))
	require.NoError(t, unix.Kill(inner, unix.SIGKILL))
	r := released(t, s)
	require.Equal(t, lease.Released, r.Why)
	for name, pid := range pids {
		require.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH, "%s: released while it still worked", name)
	}
	code, _ := p.end()
	require.Equal(t, 137, code)
}

// stat returns the fields of /proc/PID/stat after the name.
func stat(t *testing.T, pid int) []string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	parent, err := strconv.Atoi(stat(t, pid)[1])
	require.NoError(t, err)
	return parent
}

// awaitState waits until /proc shows a process in one of the states.
func awaitState(t *testing.T, pid int, states ...string) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for late := time.After(patience); ; {
		state := stat(t, pid)[0]
		if slices.Contains(states, state) {
			return
		}
		select {
		case <-look.C:
		case <-late:
			require.FailNow(t, "state", "%s, wanted %v", state, states)
		}
	}
}
