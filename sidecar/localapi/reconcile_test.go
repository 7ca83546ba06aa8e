package localapi_test

import (
	"bufio"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/sidecartest"
)

const blockedScope = "acme/environment:prod"

// TestI6_ReconcilingWithCurl: everything that the library does, as JSON.
func TestI6_ReconcilingWithCurl(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	on := parse(t, blockedScope)
	s.Authority.Block(on, "expired", lease.Evidence{Node: "node-b", Effect: effect.Effect{ID: "01JF8Z6M0000000000000EFF01", Scope: on, State: effect.Unknown}})

	resp, err := dial(s.Socket).Get("http://sidecar/v1/blocked?kinds=environment&kinds=migration")
	require.NoError(t, err)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	require.True(t, lines.Scan())
	require.Contains(t, lines.Text(), blockedScope)

	code, text := call(t, s, "/v1/evidence?scope="+blockedScope, "")
	require.Equal(t, http.StatusOK, code, text)
	require.Contains(t, text, "01JF8Z6M0000000000000EFF01")
	held := acquire(t, s, `{"scope": "`+blockedScope+`", "purpose": "reconcile"}`)
	resolve := func(rest string) (int, string) {
		return call(t, s, "/v1/resolve", `{"hold_key": "`+held.HoldKey+`", `+rest+`}`)
	}
	code, text = resolve(`"reopen": true, "seen": "all is well"`)
	require.Equal(t, http.StatusBadRequest, code, text)
	require.Contains(t, text, "unresolved")
	code, text = resolve(`"resolutions": [{"effect": "01JF8Z6M0000000000000EFF01", "outcome": "failed", "seen": "no plan"}], "reopen": true, "seen": "looked"`)
	require.Equal(t, http.StatusOK, code, text)
	require.Contains(t, text, "done")
	require.True(t, lines.Scan())
	require.NotContains(t, lines.Text(), blockedScope, "it waits for nobody any more")
}

func TestReconcilersAreToldWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	for _, c := range []struct{ path, body, want string }{
		{"/v1/acquire", `{"scope": "` + blockedScope + `", "purpose": "look"}`, "must be work or reconcile"},
		{"/v1/blocked", "", "must name at least one of"},
		{"/v1/blocked?kinds=planet", "", "must be of"},
		{"/v1/evidence?scope=prod", "", "scope"},
		{"/v1/resolve", `{"hold_key": "00000000000000000000000000000000", "reopen": true}`, "no such hold"},
		{"/v1/settle", `{"hold_key": "00000000000000000000000000000000"}`, "no such hold"},
	} {
		code, text := call(t, s, c.path, c.body)
		require.GreaterOrEqual(t, code, 400, c.path)
		require.Less(t, code, 500, c.path)
		require.Contains(t, text, c.want)
	}
}

func TestAResolvedEffectOfThisNodeIsSettledInItsJournal(t *testing.T) {
	t.Parallel()
	s := sidecartest.Start(t, slow())
	on := parse(t, blockedScope)
	e := effect.Effect{ID: "01JF8Z6M0000000000000EFF01", Lease: "L", Scope: on, Provider: "tracker"}
	require.NoError(t, s.Journal.Begin(t.Context(), e))
	s.Journal.Settle(e.ID, effect.Unknown, "restarted", 0)
	s.Authority.Block(on, "expired", lease.Evidence{Node: "node-a", Effect: e})
	held := acquire(t, s, `{"scope": "`+blockedScope+`", "purpose": "reconcile"}`)
	code, text := call(t, s, "/v1/resolve", `{"hold_key": "`+held.HoldKey+`", "resolutions": [{"effect": "`+e.ID+`", "outcome": "succeeded", "seen": "plan 7"}]}`)
	require.Equal(t, http.StatusOK, code, text)
	known, ok := s.Journal.Get(e.ID)
	require.True(t, ok)
	require.Equal(t, effect.Reconciled, known.State)
	require.Equal(t, effect.Succeeded, known.Observed)
}
