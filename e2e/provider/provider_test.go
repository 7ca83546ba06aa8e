package provider_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/e2e/provider"
)

func send(p *provider.Provider, method, token, body string) int {
	r := httptest.NewRequest(method, "/plans/prod", strings.NewReader(body))
	r.Header.Set("Fencing-Scope", "acme/environment:prod")
	r.Header.Set("Fencing-Token", token)
	r.Header.Set("Fencing-Lease", "lease-of-"+token)
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Code
}

func TestFC61_ALowerTokenIsRefusedForEveryMutation(t *testing.T) {
	t.Parallel()
	p := provider.New()
	require.Equal(t, http.StatusNoContent, send(p, http.MethodPut, "7", "plan 2"))
	for _, token := range []string{"6", "", "x", "-1"} {
		require.Equal(t, http.StatusConflict, send(p, http.MethodPut, token, "plan 1"))
		require.Equal(t, http.StatusConflict, send(p, http.MethodDelete, token, ""))
	}
	require.Equal(t, "plan 2", p.Plan("/plans/prod"))
	require.NoError(t, provider.Judge(p.Log(), false))
	require.ErrorContains(t, provider.Judge(p.Log(), true), "token 6 after 7")
}

func TestTheJudgeSeesAnAcceptedLowerToken(t *testing.T) {
	t.Parallel()
	log := []provider.Entry{{Scope: "s", Token: 2, Accepted: true}, {Scope: "t", Token: 1, Accepted: true}, {Scope: "s", Token: 1, Accepted: true}}
	require.ErrorContains(t, provider.Judge(log, false), "entry 2")
}
