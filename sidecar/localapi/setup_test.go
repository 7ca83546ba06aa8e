package localapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/sidecar/keeper"
	"github.com/forgeyard/concurrency/sidecar/sidecartest"
)

// patience bounds every wait of these tests.
const patience = 20 * time.Second

// slow is a session whose ttl is far longer than patience: what ends within
// patience has not waited for it.
func slow() sidecartest.Options {
	b := lease.DefaultBudget()
	b.TTL, b.UncertainAfter, b.LockDelay = 10*time.Minute, 5*time.Minute, 3*time.Minute
	return sidecartest.Options{Budget: b}
}

func dial(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
}

func parse(t *testing.T, text string) scope.Scope {
	t.Helper()
	s, err := scope.Parse(text)
	require.NoError(t, err)
	return s
}

// event is a HoldEvent as curl gets it.
type event struct {
	HoldKey string `json:"hold_key"`
	Scope   string `json:"scope"`
	Lease   string `json:"lease"`
	Epoch   string `json:"epoch"`
	State   string `json:"state"`
	Reason  string `json:"reason"`
	Detail  string `json:"detail"`
	Final   bool   `json:"final"`
	Holder  *struct {
		Node  string `json:"node"`
		Epoch string `json:"epoch"`
	} `json:"holder"`
}

// call posts JSON (or gets, without any) and returns status and body.
func call(t *testing.T, s *sidecartest.Sidecar, path, body string) (int, string) {
	t.Helper()
	method, reader := http.MethodPost, io.Reader(strings.NewReader(body))
	if body == "" {
		method, reader = http.MethodGet, nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://sidecar"+path, reader)
	require.NoError(t, err)
	resp, err := dial(s.Socket).Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

func acquire(t *testing.T, s *sidecartest.Sidecar, body string) event {
	t.Helper()
	code, text := call(t, s, "/v1/acquire", body)
	require.Equal(t, http.StatusOK, code, text)
	var e event
	require.NoError(t, json.Unmarshal([]byte(text), &e))
	return e
}

// process is a controller of its own.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	out *bufio.Scanner
}

func startController(t *testing.T, s *sidecartest.Sidecar, path, body string, change ...func(*exec.Cmd)) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &process{t: t, cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), asController+"="+s.Socket, controllerPath+"="+path, controllerBody+"="+body)
	for _, f := range change {
		f(p.cmd)
	}
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.out = bufio.NewScanner(out)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(p.kill)
	return p
}

// event reads the next one that the controller got.
func (p *process) event() event {
	p.t.Helper()
	require.True(p.t, p.out.Scan(), "the controller ended")
	var e event
	require.NoError(p.t, json.Unmarshal(p.out.Bytes(), &e), p.out.Text())
	return e
}

// until reads events up to the first in this state.
func (p *process) until(state string) event {
	p.t.Helper()
	for {
		if e := p.event(); e.State == state {
			return e
		}
	}
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()         // killed
}

// released waits for the authority to get a release.
func released(t *testing.T, s *sidecartest.Sidecar) keeper.ReleaseCommand {
	t.Helper()
	select {
	case r := <-s.Authority.Releases():
		return r
	case <-time.After(patience):
		require.FailNow(t, fmt.Sprintf("nothing was released within %s", patience))
		return keeper.ReleaseCommand{}
	}
}
