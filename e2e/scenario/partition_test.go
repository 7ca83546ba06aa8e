package scenario_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/forgeyard/concurrency/e2e/cluster"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

// Time to silence (I5): node-a's packets to the authority are dropped, not
// refused, while a long upload runs through its proxy. The provider must have
// received the last byte before the authority grants the scope again.
func TestI5_FC20_FC65_TimeToSilenceUnderADropPartition(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	b := start(t, "sqlite")
	slow := &slowProvider{}
	srv := httptest.NewServer(slow)
	t.Cleanup(srv.Close)
	providers := []cluster.Provider{{Name: "store", URL: srv.URL}}
	_, port, err := net.SplitHostPort(b.authority.Nodes)
	require.NoError(t, err)
	a := b.sidecar(cluster.SidecarConfig{Node: "node-a", Session: quick(), Providers: providers, Via: "127.0.0.2:" + port, Settle: time.Second})
	c := b.sidecar(cluster.SidecarConfig{Node: "node-b", Session: quick(), Providers: providers, Settle: time.Second})
	runs := 3
	if os.Getenv("LONG") != "" {
		runs = 50
	}
	var gaps []time.Duration
	for range runs {
		gaps = append(gaps, silence(t, b, a, c, slow))
	}
	slices.Sort(gaps)
	t.Logf("%d runs: from the last byte to the next grant: min %s, median %s, max %s", runs, gaps[0], gaps[runs/2], gaps[runs-1])
	require.Positive(t, gaps[0])
}

// silence is one run; it returns how long before the grant the last byte came.
func silence(t *testing.T, b *bench, a, c *cluster.Sidecar, slow *slowProvider) time.Duration {
	t.Helper()
	slow.reset()
	old := acquire(t, a, "uploader")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		req, err := http.NewRequest(http.MethodPut, old.GetBaseUrls()["store"]+"/blob", io.LimitReader(zeros{}, 64<<20))
		if err != nil {
			return
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	<-slow.started
	nft(t, "add table ip cut")
	nft(t, "add chain ip cut in { type filter hook input priority 0 ; }")
	nft(t, "add rule ip cut in ip daddr 127.0.0.2 drop")
	nft(t, "add rule ip cut in ip saddr 127.0.0.2 drop")
	fresh := acquire(t, c, "successor")
	require.Greater(t, fresh.GetEpoch(), old.GetEpoch())
	granted := acquiredAt(t, b, fresh.GetLease())
	<-ended
	last := time.Unix(0, slow.last.Load())
	require.Positive(t, slow.bytes.Load())
	require.Less(t, slow.bytes.Load(), int64(64<<20), "the upload ended by itself: nothing was cut")
	nft(t, "delete table ip cut")
	_, err := c.Local().Release(t.Context(), fresh.GetHoldKey())
	require.NoError(t, err)
	return granted.Sub(last)
}

// acquiredAt asks the authority for the time of a grant. All clocks of the
// test are one machine's.
func acquiredAt(t *testing.T, b *bench, lease string) time.Time {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), b.opts.Bin+"/forgeyard", "concurrency", "leases", "-o", "json", "-c", b.authority.OperatorConfig)
	out, err := cmd.Output()
	require.NoError(t, err)
	list := &pb.ListLeasesResponse{}
	require.NoError(t, protojson.Unmarshal(out, list))
	for _, r := range list.GetLeases() {
		if r.GetLease().GetId() == lease {
			return r.GetLease().GetAcquiredAt().AsTime()
		}
	}
	require.Failf(t, "the authority does not list the lease", "%s", lease)
	return time.Time{}
}

// slowProvider reads 64 KiB each 10 ms, and notes when the last byte came.
type slowProvider struct {
	bytes, last atomic.Int64
	started     chan struct{}
}

func (p *slowProvider) reset() {
	p.bytes.Store(0)
	p.last.Store(0)
	p.started = make(chan struct{})
}

// ServeHTTP implements http.Handler.
func (p *slowProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	buf := make([]byte, 64<<10)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		n, err := r.Body.Read(buf)
		if n > 0 {
			p.last.Store(time.Now().UnixNano())
			if p.bytes.Add(int64(n)) == int64(n) {
				close(p.started)
			}
		}
		if err != nil {
			return
		}
		<-tick.C
	}
}

type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func nft(t *testing.T, rule string) {
	t.Helper()
	out, err := exec.Command("nft", rule).CombinedOutput()
	require.NoError(t, err, "nft %s: %s", rule, out)
}

// inOwnNetwork runs the test again in a process with a network of its own, and
// reports whether this is that process. Needs root, which CI must have.
func inOwnNetwork(t *testing.T) bool {
	t.Helper()
	const mark = "FORGEYARD_OWN_NETWORK"
	if os.Getenv(mark) != "" {
		out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput()
		require.NoError(t, err, "%s", out)
		return true
	}
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("network namespaces need root, and CI=true makes this test required")
		}
		t.Skip("network namespaces need root")
	}
	bin, err := programs()
	require.NoError(t, err)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=30m")
	cmd.Env = append(os.Environ(), mark+"=1", cluster.EnvBin+"="+bin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
	return false
}
