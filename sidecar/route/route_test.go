package route_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/sidecar/route"
)

func gitTable(t testing.TB) route.Table {
	t.Helper()
	table, err := route.Compile([]route.Route{
		{Name: "git fetch", Methods: []string{"POST"}, Path: "/*/git-upload-pack", Kind: route.Read},
		{Name: "git push", Methods: []string{"POST"}, Path: "/*/git-receive-pack", Kind: route.Mutation, Safety: effect.InspectBeforeRetry},
		{Name: "secret", Methods: []string{"GET"}, Path: "/secrets/**", Kind: route.Read, GateAll: true},
		{Name: "put plan", Methods: []string{"PUT"}, Path: "/plans/*", Kind: route.Mutation, Safety: effect.Idempotent},
		{Name: "run", Methods: []string{"GET"}, Path: "/run", Kind: route.Mutation},
	})
	require.NoError(t, err)
	return table
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		method, path, name string
		fenced             bool
		safety             effect.Safety
	}{
		{"POST", "/repo.git/git-upload-pack", "git fetch", false, ""},
		{"POST", "/repo.git/git-receive-pack", "git push", true, effect.InspectBeforeRetry},
		{"GET", "/repo.git/info/refs", "GET /repo.git/info/refs", false, ""},
		{"GET", "/secrets/a/b", "secret", true, ""},
		{"PUT", "/plans/prod", "put plan", true, effect.Idempotent},
		{"GET", "/run", "run", true, effect.ManualOnly},
		{"GET", "/run/", "run", true, effect.ManualOnly},
		{"HEAD", "/run", "run", true, effect.ManualOnly},
		{"HEAD", "/secrets", "secret", true, ""},
		{"GET", "/", "GET /", false, ""},
		{"PUT", "/plans/prod/", "put plan", true, effect.Idempotent},
		{"PUT", "/plans/", "PUT /plans/", true, effect.ManualOnly},
		{"PUT", "/plans/prod/more", "PUT /plans/prod/more", true, effect.ManualOnly},
		{"DELETE", "/plans/prod", "DELETE /plans/prod", true, effect.ManualOnly},
		{"PROPFIND", "/x", "PROPFIND /x", true, effect.ManualOnly},
		{"put", "/plans/prod", "put /plans/prod", true, effect.ManualOnly},
		{"PUT", "/plans/pro%64", "put plan", true, effect.Idempotent},
	} {
		op, err := gitTable(t).Match(tc.method, tc.path)
		require.NoError(t, err)
		require.Equal(t, tc.name, op.Name, "%s %s", tc.method, tc.path)
		require.Equal(t, tc.fenced, op.Fenced(), "%s %s", tc.method, tc.path)
		require.Equal(t, tc.safety, op.Safety, "%s %s", tc.method, tc.path)
	}
}

// TestTrap17_PathsThatTwoServersReadDifferentlyAreRefused is the table of path
// tricks.
func TestTrap17_PathsThatTwoServersReadDifferentlyAreRefused(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"", "plans", "/plans/%2e%2e/x", "/plans/%2E%2E/x", "/plans/..", "/plans/./x", "//plans", "/plans//x", "/plans%2Fprod", "/plans%2fprod",
		"/plans/prod;v=1", "/plans\\prod", "/plans%5cprod", "/plans/%00", "/plans/%", "/plans/%zz", "/plans/%252e", "/plans/\x01", "/plans/%0a",
	} {
		_, err := gitTable(t).Match("GET", path)
		var bad *route.PathError
		require.ErrorAs(t, err, &bad, "%q", path)
		require.Equal(t, path, bad.Path)
		require.NotEmpty(t, bad.Problem)
	}
}

func TestCompileNamesIndexFieldAndValue(t *testing.T) {
	t.Parallel()
	good := route.Route{Name: "a", Path: "/a", Kind: route.Read}
	for want, change := range map[string]func(*route.Route){
		`routes[1].name: must not be empty`:                func(r *route.Route) { r.Name = "" },
		`routes[1].path "a": must start with /`:            func(r *route.Route) { r.Path = "a" },
		`routes[1].path "/**/a": ** must come last`:        func(r *route.Route) { r.Path = "/**/a" },
		`routes[1].kind "write": must be read or mutation`: func(r *route.Route) { r.Kind = "write" },
		`routes[1].methods "get": must be upper case`:      func(r *route.Route) { r.Methods = []string{"get"} },
		`routes[1].retry_safety "sure": must be idempotent, provider-idempotent, inspect-before-retry or manual-only`: func(r *route.Route) { r.Safety = "sure" },
	} {
		bad := good
		change(&bad)
		_, err := route.Compile([]route.Route{good, bad})
		require.EqualError(t, err, want)
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("POST", "/repo.git/git-receive-pack")
	f.Add("GET", "/a/%2e%2e/b")
	table := gitTable(f)
	f.Fuzz(func(t *testing.T, method, path string) {
		op, err := table.Match(method, path)
		if err != nil {
			return
		}
		if !op.Fenced() && op.Kind != route.Read {
			t.Fatalf("%q %q is neither fenced nor a read", method, path)
		}
		again, err := route.Canonical(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := table.Match(method, path); err != nil {
			t.Fatalf("%q was accepted, then not: %v", again, err)
		}
	})
}
