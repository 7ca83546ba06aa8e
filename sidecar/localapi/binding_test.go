package localapi_test

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/localapi"
	"github.com/forgeyard/concurrency/sidecar/sidecartest"
)

const prod = `{"scope":"acme/environment:prod"}`

func TestFC12_KilledControllerEndsItsStreamHoldAtOnce(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	p := startController(t, s, "/v1/hold", prod)
	owned := p.until("owned")
	p.kill()
	r := released(t, s)
	require.Equal(t, lease.CallerGone, r.Why)
	require.Equal(t, owned.Lease, r.Lease)
}

func TestFC12_KilledControllerEndsItsPidHoldAtOnce(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	p := startController(t, s, "/v1/acquire", prod)
	owned := p.event()
	p.kill()
	r := released(t, s)
	require.Equal(t, lease.CallerGone, r.Why)
	require.Equal(t, owned.Lease, r.Lease)
}

func TestFC12_HoldOfANamedProcessEndsWithThatProcess(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	worker := sleeper(t)
	owned := acquire(t, s, fmt.Sprintf(`{"scope":"acme/environment:prod","pid":%d}`, worker.Process.Pid))
	require.NoError(t, worker.Process.Kill())
	require.Error(t, worker.Wait())
	r := released(t, s)
	require.Equal(t, lease.CallerGone, r.Why)
	require.Equal(t, owned.Lease, r.Lease)
}

func TestFC12_ZombieDoesNotKeepItsHold(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	worker := sleeper(t)
	acquire(t, s, fmt.Sprintf(`{"scope":"acme/environment:prod","pid":%d}`, worker.Process.Pid))
	require.NoError(t, worker.Process.Kill()) // and nobody waits for it
	require.Equal(t, lease.CallerGone, released(t, s).Why)
}

func TestFC12_WaitingControllerThatIsKilledGetsNothing(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	prodScope := parse(t, "acme/environment:prod")
	s.Authority.Other(prodScope)
	p := startController(t, s, "/v1/hold", `{"scope":"acme/environment:prod","wait":"600s"}`)
	p.until("waiting")
	p.kill()
	s.Authority.Leave(prodScope)
	next := acquire(t, s, `{"scope":"acme/environment:prod","wait":"20s"}`)
	require.NotEmpty(t, next.Lease, "the dead one is not in the way")
}

func TestFC104_ProcessThatDiedBesideAStoppedSidecarIsNoticedAtTheStart(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	worker := sleeper(t)
	owned := acquire(t, s, fmt.Sprintf(`{"scope":"acme/environment:prod","pid":%d}`, worker.Process.Pid))
	s.Stop()
	require.NoError(t, worker.Process.Kill())
	require.Error(t, worker.Wait())
	s.Run()
	r := released(t, s)
	require.Equal(t, lease.CallerGone, r.Why)
	require.Equal(t, owned.Lease, r.Lease)
}

func TestFC104_LivingProcessKeepsItsHoldOverARestartAndIsWatchedAgain(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	worker := sleeper(t)
	owned := acquire(t, s, fmt.Sprintf(`{"scope":"acme/environment:prod","pid":%d}`, worker.Process.Pid))
	s.Stop()
	s.Run()
	code, _ := call(t, s, "/v1/status", "")
	require.Equal(t, 200, code)
	require.Empty(t, s.Authority.Releases())
	require.NoError(t, worker.Process.Kill())
	require.Error(t, worker.Wait())
	require.Equal(t, owned.Lease, released(t, s).Lease)
}

func TestFC104_HoldThatRanOutBesideAStoppedSidecarIsStillReleased(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	owned := acquire(t, s, fmt.Sprintf(`{"scope":"acme/environment:prod","pid":%d}`, sleeper(t).Process.Pid))
	s.Stop()
	s.Age()
	s.Run()
	r := released(t, s)
	require.Equal(t, owned.Lease, r.Lease, "the authority renews the session, so nobody else would ever end this lease")
}

func TestFC104_ReusedPidIsAnotherProcess(t *testing.T) {
	t.Parallel()
	worker := sleeper(t)
	started, err := localapi.StartTime(worker.Process.Pid)
	require.NoError(t, err)
	require.True(t, localapi.Alive(worker.Process.Pid, started))
	require.False(t, localapi.Alive(worker.Process.Pid, started-1), "the same pid with another start time is a stranger")
	require.NoError(t, worker.Process.Kill())
	require.Error(t, worker.Wait())
	require.False(t, localapi.Alive(worker.Process.Pid, started))
}

func TestDetachedHoldEndsWithItsTime(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	owned := acquire(t, s, `{"scope":"acme/environment:prod","detach":"0.3s"}`)
	r := released(t, s)
	require.Equal(t, lease.CallerGone, r.Why)
	require.Equal(t, owned.Lease, r.Lease)
}

// sleeper is a process to bind a hold to.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // or have been waited for
	})
	return cmd
}
