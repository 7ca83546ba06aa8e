package rpc_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/identity"
)

// rest calls the JSON side; the body of the answer comes back as a map.
func (b *bench) rest(method, path, who string, body any) (int, map[string]any) {
	b.t.Helper()
	text, err := json.Marshal(body)
	require.NoError(b.t, err)
	req, err := http.NewRequestWithContext(b.t.Context(), method, "https://"+b.people+path, bytes.NewReader(text))
	require.NoError(b.t, err)
	if who != "" {
		req.Header.Set("Authorization", "Bearer "+who+"-secret")
	}
	resp, err := b.http().Do(req)
	require.NoError(b.t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	out := map[string]any{}
	require.NoError(b.t, json.Unmarshal(raw, &out), "%s", raw)
	return resp.StatusCode, out
}

func (b *bench) http() *http.Client {
	transport := &http.Transport{TLSClientConfig: identity.ClientTLS(nil, b.ca.Pool(), "localhost"), ForceAttemptHTTP2: true}
	b.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func force(scope string, epoch uint64, reason string) *pb.ForceReleaseRequest {
	return &pb.ForceReleaseRequest{CommandId: ulid.Make().String(), Scope: scope, Epoch: epoch, Reason: reason}
}

func TestFC84_ForceReleaseNeedsRoleExactEpochAndReason(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.join("node-a", "acme")
	held := a.hold(prod)
	epoch := held.GetEpoch()
	for name, tc := range map[string]struct {
		who  string
		r    *pb.ForceReleaseRequest
		code codes.Code
		text string
	}{
		"no token":     {"", force(prod, epoch, "x"), codes.Unauthenticated, "bearer token"},
		"no role":      {"reader", force(prod, epoch, "x"), codes.PermissionDenied, "lacks the role concurrency.force_release"},
		"other tenant": {"umbrella", force(prod, epoch, "x"), codes.NotFound, "never used, or its tenant is not one of yours"},
		"no reason":    {"sre", force(prod, epoch, "  "), codes.InvalidArgument, "reason \"\": must be 1 to 500 bytes"},
		"long reason":  {"sre", force(prod, epoch, strings.Repeat("x", 501)), codes.InvalidArgument, "must be 1 to 500 bytes"},
		"no epoch":     {"sre", force(prod, 0, "x"), codes.InvalidArgument, "epoch \"0\": must be the epoch"},
		"wrong epoch": {"sre", force(prod, epoch-1, "x"), codes.Aborted,
			fmt.Sprintf(`epoch %d was given, the present holder has %d; held by controller "deployer" on node node-a`, epoch-1, epoch)},
		"malformed scope": {"sre", force("prod", epoch, "x"), codes.InvalidArgument, `scope "prod": scope must read tenant/kind:name`},
		"unknown scope":   {"sre", force("acme/environment:nowhere", epoch, "x"), codes.NotFound, "never used"},
		"command id":      {"sre", &pb.ForceReleaseRequest{CommandId: "1", Scope: prod, Epoch: epoch, Reason: "x"}, codes.InvalidArgument, `command_id "1": must be a ULID`},
	} {
		_, err := b.as(tc.who).ForceRelease(t.Context(), tc.r)
		require.Equal(t, tc.code, status.Code(err), "%s: %v", name, err)
		require.ErrorContains(t, err, tc.text, name)
	}
	require.Equal(t, "live", a.fetch().GetLeases()[0].GetState(), "nothing changed")

	_, err := b.as("sre").ForceRelease(t.Context(), force(prod, epoch-1, "x"))
	details := status.Convert(err).Details()
	require.Len(t, details, 1)
	require.Equal(t, epoch, details[0].(*pb.Answer).GetHolder().GetEpoch(), "the conflict shows the present holder")

	first, err := b.as("sre").ForceRelease(t.Context(), force(prod, epoch, "stuck since noon"))
	require.NoError(t, err)
	require.Equal(t, "draining", first.GetAnswer().GetCode())
	repeat, err := b.as("sre").ForceRelease(t.Context(), force(prod, epoch, "once more"))
	require.NoError(t, err)
	require.Equal(t, "already-ended", repeat.GetAnswer().GetCode())
}

func TestForceReleaseIsOneCommand(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.join("node-a", "acme")
	r := force(prod, a.hold(prod).GetEpoch(), "stuck")
	first, err := b.as("sre").ForceRelease(t.Context(), r)
	require.NoError(t, err)
	again, err := b.as("sre").ForceRelease(t.Context(), r)
	require.NoError(t, err)
	require.True(t, again.GetAnswer().GetReplayed())
	require.Equal(t, first.GetAnswer().GetEpoch(), again.GetAnswer().GetEpoch())
	r.Reason = "another"
	_, err = b.as("sre").ForceRelease(t.Context(), r)
	require.Equal(t, codes.Aborted, status.Code(err))
	require.ErrorContains(t, err, "key-conflict")
}

func TestI10_ForeignAndMissingScopesAnswerAlike(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.join("node-a", "acme")
	a.hold(prod)
	same := func(text string) string {
		text = strings.ReplaceAll(text, "acme/environment:prod", "S")
		return strings.ReplaceAll(text, "umbrella/environment:prod", "S")
	}
	_, foreign := b.as("umbrella").ExplainScope(t.Context(), &pb.ExplainScopeRequest{Scope: prod})
	_, missing := b.as("umbrella").ExplainScope(t.Context(), &pb.ExplainScopeRequest{Scope: "umbrella/environment:prod"})
	require.Equal(t, codes.NotFound, status.Code(foreign))
	require.Equal(t, same(missing.Error()), same(foreign.Error()))
	_, foreign = b.as("umbrella").ForceRelease(t.Context(), force(prod, 1, "x"))
	_, missing = b.as("umbrella").ForceRelease(t.Context(), force("umbrella/environment:prod", 1, "x"))
	require.Equal(t, same(missing.Error()), same(foreign.Error()))

	leases, err := b.as("umbrella").ListLeases(t.Context(), &pb.ListLeasesRequest{})
	require.NoError(t, err)
	require.Empty(t, leases.GetLeases())
	leases, err = b.as("umbrella").ListLeases(t.Context(), &pb.ListLeasesRequest{Scope: prod})
	require.NoError(t, err)
	require.Empty(t, leases.GetLeases())
	nodes, err := b.as("umbrella").ListNodes(t.Context(), &pb.ListNodesRequest{})
	require.NoError(t, err)
	require.Empty(t, nodes.GetNodes())
	effects, err := b.as("umbrella").ListEffects(t.Context(), &pb.ListEffectsRequest{})
	require.NoError(t, err)
	require.Empty(t, effects.GetEffects())
	require.Empty(t, effects.GetUnreachableNodes())
}

func TestFC85_ExplainAnswersHolderSinceLivenessAndWhatToDo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.join("node-a", "acme")
	b.pass(ttl+lockDelay+2*time.Second, a)
	held := a.hold(prod)
	a.report = &pb.InspectResponse{Node: "node-a", State: "owned", Holds: []*pb.Hold{
		{Scope: prod, State: "owned", InFlight: 2}, {Scope: "acme/environment:other", State: "owned"},
	}}
	explain := func() *pb.ExplainScopeResponse {
		got, err := b.as("reader").ExplainScope(t.Context(), &pb.ExplainScopeRequest{Scope: prod})
		require.NoError(t, err)
		return got
	}
	got := explain()
	require.Equal(t, "owned", got.GetState())
	require.Equal(t, "node-a", got.GetHolder().GetNode())
	require.True(t, got.GetHolder().GetAlive())
	require.Len(t, got.GetHolds(), 1)
	require.Equal(t, "default of environment", got.GetPolicy().GetSource())
	advice := strings.Join(got.GetAdvice(), "\n")
	require.Contains(t, advice, `controller "deployer" on node node-a holds it since`)
	require.Contains(t, advice, "Its sidecar says: owned, 2 calls in flight")
	require.Contains(t, advice, fmt.Sprintf(`forgeyard concurrency force-release %s --epoch %d --reason "<why>"`, prod, held.GetEpoch()))

	b.pass(ttl + time.Second)
	got = explain()
	require.False(t, got.GetHolder().GetAlive())
	require.Contains(t, strings.Join(got.GetAdvice(), "\n"), "its session has gone silent")

	b.pass(lockDelay + ttl) // and the sweeper's grace
	got = explain()
	require.Equal(t, "blocked-for-reconciliation", got.GetState())
	st, err := b.as("reader").GetStatus(t.Context(), &pb.GetStatusRequest{})
	require.NoError(t, err)
	require.EqualValues(t, 1, st.GetScopesBlocked())
	advice = strings.Join(got.GetAdvice(), "\n")
	require.Contains(t, advice, "blocked for reconciliation")
	require.Contains(t, advice, fmt.Sprintf(`force-release %s --epoch %d --reason "<why>" --accept-unreconciled`, prod, got.GetEpoch()))
	require.Equal(t, "expired", got.GetRecent()[0].GetEndReason())
	require.NotEmpty(t, got.GetAudit())

	r := force(prod, got.GetEpoch(), "looked at it")
	r.AcceptUnreconciled = true
	answer, err := b.as("sre").ForceRelease(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, "done", answer.GetAnswer().GetCode())
	got = explain()
	require.Equal(t, "free", got.GetState())
	require.Contains(t, strings.Join(got.GetAdvice(), "\n"), "forgeyard run --scope "+prod)
}

func TestListsForPeople(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.join("node-a", "acme", "beta")
	held := a.hold(prod)
	a.report = &pb.InspectResponse{Node: "another name", Effects: []*pb.Effect{
		{Id: "1", Scope: prod, Epoch: held.GetEpoch(), State: "unknown", Provider: "deploy"},
		{Id: "2", Scope: "beta/environment:x", State: "unknown"},
		{Id: "3", Scope: prod, State: "succeeded"},
	}}
	gone := b.join("node-gone", "acme")
	gone.tunnel.Close()
	<-gone.tunnel.Done()

	effects, err := b.as("reader").ListEffects(t.Context(), &pb.ListEffectsRequest{State: "unknown"})
	require.NoError(t, err)
	require.Len(t, effects.GetEffects(), 1, "beta is not the reader's")
	require.Equal(t, "node-a", effects.GetEffects()[0].GetNode(), "the certificate's word")
	require.Equal(t, []string{"node-gone"}, effects.GetUnreachableNodes())

	code, leases := b.rest("GET", "/v1/concurrency/leases", "reader", nil)
	require.Equal(t, 200, code)
	row := leases["leases"].([]any)[0].(map[string]any)
	require.Equal(t, fmt.Sprint(held.GetEpoch()), row["lease"].(map[string]any)["epoch"], "epochs are decimal strings in JSON")
	require.Equal(t, true, row["alive"])

	code, nodes := b.rest("GET", "/v1/concurrency/nodes", "reader", nil)
	require.Equal(t, 200, code)
	require.Len(t, nodes["nodes"], 2)
	require.Equal(t, []any{"acme"}, nodes["nodes"].([]any)[0].(map[string]any)["tenants"])
	code, st := b.rest("GET", "/v1/concurrency/status", "reader", nil)
	require.Equal(t, 200, code)
	require.EqualValues(t, 1, st["leases_live"])
	require.EqualValues(t, 2, st["sessions_alive"])
}

func TestBadInputOverREST(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.join("node-a", "acme")
	held := a.hold(prod)
	body := func(change func(map[string]any)) map[string]any {
		m := map[string]any{"command_id": ulid.Make().String(), "scope": prod, "epoch": fmt.Sprint(held.GetEpoch()), "reason": "x"}
		change(m)
		return m
	}
	for name, tc := range map[string]struct {
		method, path, who string
		body              any
		code              int
		text              string
	}{
		"no token":      {"GET", "/v1/concurrency/leases", "", nil, 401, "bearer token"},
		"wrong token":   {"GET", "/v1/concurrency/leases", "nobody", nil, 401, "bearer token"},
		"scope":         {"GET", "/v1/concurrency/explain?scope=prod", "reader", nil, 400, `scope \"prod\"`},
		"foreign":       {"GET", "/v1/concurrency/explain?scope=umbrella/environment:x", "reader", nil, 404, "never used, or its tenant"},
		"role":          {"POST", "/v1/concurrency/join-tokens", "sre", map[string]any{"tenants": []string{"acme"}}, 403, "concurrency.admin"},
		"wrong epoch":   {"POST", "/v1/concurrency/force-release", "sre", body(func(m map[string]any) { m["epoch"] = "7" }), 409, "epoch 7 was given"},
		"epoch text":    {"POST", "/v1/concurrency/force-release", "sre", body(func(m map[string]any) { m["epoch"] = "seven" }), 400, "seven"},
		"unknown field": {"POST", "/v1/concurrency/force-release", "sre", body(func(m map[string]any) { m["force"] = true }), 400, "force"},
		"no such path":  {"GET", "/v1/concurrency/secrets", "admin", nil, 404, "Not Found"},
		"tenants":       {"POST", "/v1/concurrency/join-tokens", "admin", map[string]any{"tenants": []string{"A B"}}, 400, `tenants \"A B\"`},
		"uses":          {"POST", "/v1/concurrency/join-tokens", "admin", map[string]any{"tenants": []string{"acme"}, "uses": -1}, 400, `uses \"-1\"`},
	} {
		code, out := b.rest(tc.method, tc.path, tc.who, tc.body)
		text, err := json.Marshal(out)
		require.NoError(t, err)
		require.Equal(t, tc.code, code, "%s: %s", name, text)
		require.Contains(t, string(text), tc.text, name)
	}
	require.Equal(t, "live", a.fetch().GetLeases()[0].GetState(), "nothing changed")
}

func TestOversizeHeaderIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, h2 := range []bool{true, false} {
		tlsConfig := identity.ClientTLS(nil, b.ca.Pool(), "localhost")
		transport := &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: h2}
		req, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+b.people+"/v1/concurrency/status", nil)
		require.NoError(t, err)
		req.Header.Set("X-Padding", strings.Repeat("x", 1<<20))
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err == nil { // HTTP/2 may refuse it in the client, by the server's setting
			require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, resp.StatusCode)
			resp.Body.Close()
		}
		transport.CloseIdleConnections()
		code, _ := b.rest("GET", "/v1/concurrency/status", "reader", nil)
		require.Equal(t, 200, code, "nobody else is disturbed")
	}
}
