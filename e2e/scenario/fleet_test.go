package scenario_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/forgeyard/concurrency/authority/store/postgres/pgtest"
	"github.com/forgeyard/concurrency/e2e/cluster"
	"github.com/forgeyard/concurrency/e2e/provider"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/identity"
)

// One CA follows another while controllers write: every node renews over its
// tunnel, the former CA is retired, and no hold notices.
func TestACARotationUnderLoadLosesNoHold(t *testing.T) {
	t.Parallel()
	b := startDev(t)
	u := &upgrade{t: t, provider: provider.New()}
	srv := httptest.NewServer(u.provider)
	t.Cleanup(srv.Close)
	u.sidecar = b.sidecar(cluster.SidecarConfig{Node: "node-a", Session: patient(), Providers: []cluster.Provider{{Name: "plans", URL: srv.URL}}})
	require.NoError(t, u.sidecar.Stop())
	b.age(u.sidecar, 2*time.Hour) // one of this minute is not asked to renew
	require.NoError(t, u.sidecar.Restart(t.Context()))
	u.load()

	former := b.issuer("node-a")
	b.whileStopped(func() { b.ca("rotate") })
	for ctx := within(t, time.Minute); b.issuer("node-a") == former; {
		require.NoError(t, ctx.Err(), "the node does not renew")
	}
	u.goesOn()
	b.whileStopped(func() { b.ca("retire") })
	u.goesOn()
	u.judge()
}

// deciders are the ways in which a decision about a node can reach it.
func deciders() map[string]func(*testing.T) (b *bench, decides *cluster.Authority) {
	alone := func(store string) func(*testing.T) (*bench, *cluster.Authority) {
		return func(t *testing.T) (*bench, *cluster.Authority) {
			b := start(t, store)
			return b, b.authority
		}
	}
	return map[string]func(*testing.T) (*bench, *cluster.Authority){
		"sqlite": alone("sqlite"), "postgres": alone("postgres"),
		"postgres, by a replica that it is not connected to": func(t *testing.T) (*bench, *cluster.Authority) {
			url := pgtest.Database(t)
			b := serveOn(t, url)
			another, err := cluster.ServeAuthority(t.Context(), b.opts, cluster.Serving{PostgresURL: url, Policy: free(), Replica: 1, Of: b.authority})
			require.NoError(t, err)
			t.Cleanup(func() { another.Stop() })
			return b, another
		},
	}
}

// FC-81: what runs through the proxy of a revoked node ends within a second.
// Its scope goes to another node, not before its time is over; restored, it
// works again.
func TestFC81_ARevokedNodeIsCutWithinASecondAndAnotherWorksOn(t *testing.T) {
	t.Parallel()
	for name, serve := range deciders() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, decides := serve(t)
			arrived, over := make(chan struct{}), make(chan time.Time, 1)
			stuck := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				close(arrived)
				<-r.Context().Done()
				over <- time.Now()
			}))
			t.Cleanup(stuck.Close)
			// A node that would notice by its heartbeats only after much longer.
			first := b.sidecar(cluster.SidecarConfig{Node: "node-a", Session: patient(), Settle: time.Second, Providers: []cluster.Provider{{Name: "console", URL: stuck.URL}}})
			second := b.sidecar(cluster.SidecarConfig{Node: "node-b", Session: quick()})
			held := acquire(t, first, "merge-controller")
			go call(held.GetBaseUrls()["console"] + "/session")
			<-arrived
			b.operateOn(decides, "concurrency", "nodes", "revoke", "node-a", "--reason", "stolen in the night")
			decided := time.Now()
			select {
			case at := <-over:
				t.Logf("cut %s after the decision", at.Sub(decided).Round(time.Millisecond))
				require.Less(t, at.Sub(decided), time.Second)
			case <-within(t, 20*time.Second).Done():
				require.FailNow(t, "it runs on")
			}
			b.partsWith(first)
			next := acquire(t, second, "merge-controller-2")
			require.Greater(t, next.GetEpoch(), held.GetEpoch())
			require.Contains(t, b.operate("concurrency", "nodes"), "stolen in the night")

			b.operate("concurrency", "nodes", "restore", "node-a", "--reason", "found in the morning")
			_, err := first.Local().Acquire(within(t, time.Minute), &pb.HoldRequest{
				Scope: "acme/merge-target:other", Wait: durationpb.New(30 * time.Second), Pid: int32(os.Getpid()),
			})
			require.NoError(t, err)
		})
	}
}

// call waits for an answer that does not come.
func call(url string) {
	req, err := http.NewRequest(http.MethodPost, url, nil)
	if err != nil {
		return // the test waits in vain, and says so
	}
	if resp, err := http.DefaultClient.Do(req); err == nil { // it is cut
		resp.Body.Close()
	}
}

// partsWith looks at a node that was revoked.
func (b *bench) partsWith(s *cluster.Sidecar) {
	t := b.t
	t.Helper()
	status, err := s.Local().Status(t.Context())
	require.NoError(t, err)
	require.Len(t, status.GetHolds(), 1)
	require.Equal(t, "lost", status.GetHolds()[0].GetState())
	require.Equal(t, "revoked", status.GetHolds()[0].GetReason())
	require.Contains(t, status.GetHolds()[0].GetDetail(), "by person:admin")
	_, err = s.Local().Acquire(within(t, time.Minute), &pb.HoldRequest{Scope: "acme/merge-target:other", Wait: durationpb.New(time.Second)})
	require.Error(t, err, "a scope that is free, but not for a node that is revoked")
}

// A node that was away for longer than its certificate lasts says so. With a
// join token that is good it is back after a start, without one it is not.
func TestAnExpiredNodeEnrolsAgainOrSaysWhy(t *testing.T) {
	t.Parallel()
	b := startDev(t)
	s := b.sidecar(cluster.SidecarConfig{Node: "node-a", Session: patient()})
	require.NoError(t, s.Stop())
	b.age(s, 31*24*time.Hour)
	token, err := os.ReadFile(b.authority.JoinTokenFile)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(b.authority.JoinTokenFile, []byte("spent"), 0o600))
	err = s.Restart(t.Context())
	require.ErrorContains(t, err, "the certificate of node node-a expired on")
	require.ErrorContains(t, err, "enrol again with a fresh join token")
	require.ErrorContains(t, err, "join token unknown, spent or expired")

	require.NoError(t, os.WriteFile(b.authority.JoinTokenFile, token, 0o600))
	require.NoError(t, s.Restart(t.Context()))
	acquire(t, s, "merge-controller")
	require.Contains(t, b.operate("concurrency", "audit"), "node-enrolled")
}

// A sidecar that stops with nothing in its hands leaves its name free at once:
// the node may come back from another directory, which nobody could resume
// from.
func TestANodeThatStoppedIdleComesBackAtOnceFromAnotherDirectory(t *testing.T) {
	t.Parallel()
	b := start(t, "sqlite")
	first := b.sidecar(cluster.SidecarConfig{Node: "node-a", Session: patient()})
	held := acquire(t, first, "merge-controller")
	_, err := first.Local().Release(t.Context(), held.GetHoldKey())
	require.NoError(t, err)
	second, err := first.Clone("elsewhere")
	require.NoError(t, err)
	require.NoError(t, second.Forget())
	require.NoError(t, first.Stop())
	require.NoError(t, second.Restart(t.Context()))
	t.Cleanup(func() { second.Kill() })
	began := time.Now()
	acquire(t, second, "merge-controller")
	require.Less(t, time.Since(began), patient().TTL, "it waited for its own former session")
}

// startDev serves an authority that makes its own CA, so that nodes enrol.
func startDev(t *testing.T) *bench {
	t.Helper()
	bin, err := programs()
	require.NoError(t, err)
	dir, err := os.MkdirTemp("/tmp", "fy-")
	require.NoError(t, err)
	b := &bench{t: t, opts: cluster.Options{Bin: bin, Dir: dir}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs are kept in %s", dir)
			return
		}
		require.NoError(t, os.RemoveAll(dir))
	})
	policy, err := json.Marshal(free()) // JSON is YAML
	require.NoError(t, err)
	b.authority, err = cluster.StartAuthority(t.Context(), b.opts, string(policy))
	require.NoError(t, err)
	t.Cleanup(func() { b.authority.Stop() })
	return b
}

// whileStopped does something to the files of the authority.
func (b *bench) whileStopped(do func()) {
	b.t.Helper()
	require.NoError(b.t, b.authority.Stop())
	do()
	require.NoError(b.t, b.authority.Restart(b.t.Context()))
}

func (b *bench) ca(verb string) {
	b.t.Helper()
	cmd := exec.Command(filepath.Join(b.opts.Bin, "forgeyard-authority"), "ca", verb, "--data-dir", filepath.Join(b.opts.Dir, "authority"))
	out, err := cmd.CombinedOutput()
	require.NoError(b.t, err, "%s", out)
}

// operate runs a command of an operator.
func (b *bench) operate(args ...string) string {
	b.t.Helper()
	return b.operateOn(b.authority, args...)
}

func (b *bench) operateOn(a *cluster.Authority, args ...string) string {
	b.t.Helper()
	cmd := exec.Command(filepath.Join(b.opts.Bin, "forgeyard"), append(args, "-c", a.OperatorConfig)...)
	out, err := cmd.CombinedOutput()
	require.NoError(b.t, err, "%s", out)
	return string(out)
}

// issuer is the key that signed the certificate with which a node came last.
func (b *bench) issuer(node string) string {
	b.t.Helper()
	list := &pb.ListNodesResponse{}
	require.NoError(b.t, protojson.Unmarshal([]byte(b.operate("concurrency", "nodes", "-o", "json")), list))
	for _, n := range list.GetNodes() {
		if n.GetName() == node {
			return n.GetCertificateIssuer()
		}
	}
	require.FailNow(b.t, "the authority does not know the node")
	return ""
}

// age replaces a stopped node's certificate by one that was issued earlier.
func (b *bench) age(s *cluster.Sidecar, by time.Duration) {
	b.t.Helper()
	ca, err := identity.LoadCA(filepath.Dir(b.authority.CA), identity.DefaultTrustDomain)
	require.NoError(b.t, err)
	key, csr, err := identity.NewNodeKey(s.Node)
	require.NoError(b.t, err)
	chain, err := ca.IssueNode(csr, identity.Node{Name: s.Node, Tenants: []string{"acme"}}, time.Now().Add(-by), 30*24*time.Hour)
	require.NoError(b.t, err)
	require.NoError(b.t, identity.WriteIdentity(filepath.Join(filepath.Dir(s.Socket), "node.pem"), chain, key))
}
