package archtest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/archtest"
)

func load(t *testing.T, dir string) *archtest.Tree {
	t.Helper()
	tree, err := archtest.Load(dir)
	require.NoError(t, err)
	require.NotEmpty(t, tree.Packages)
	return tree
}

func TestTheTreeKeepsTheRules(t *testing.T) {
	t.Parallel()
	tree := load(t, "../..")
	for _, rule := range archtest.Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			t.Parallel()
			for _, place := range rule.Check(tree) {
				t.Errorf("%s\n\t(%s)", place, rule.Why)
			}
		})
	}
}

// broken says for each rule what it must find in testdata/broken.
func broken() map[string][]string {
	return map[string][]string{
		"layers":       {"shared/common imports authority/rpc", "authority/rpc imports sidecar/gate", "sidecar/gate imports authority/store"},
		"drivers":      {"authority/rpc imports github.com/jackc/pgx/v5/pgxpool", "sidecar/gate imports modernc.org/sqlite", "sidecar/gate imports go.etcd.io/bbolt", "sidecar/gate imports github.com/hashicorp/yamux"},
		"generated":    {"sidecar/gate imports proto/v1"},
		"doors":        {"authority/rpc imports authority/store/postgres"},
		"harnesses":    {"sidecar/gate imports shared/clock/clocktest", "sidecar/gate imports testing"},
		"pure-imports": {"shared/lease imports os", "shared/lease imports shared/common"},
		"pure-calls":   {"shared/lease/lease.go:13: time.Now", "shared/lease/lease.go:14: starts a goroutine", "shared/lease/lease.go:17: time.Since"},
		"clock":        {"sidecar/gate/gate.go:23: time.NewTimer", "sidecar/gate/gate.go:26: time.Now"},
		"sleep":        {"sidecar/gate/gate_test.go:8: time.Sleep", "shared/clock/clocktest/manual.go:6: time.Sleep"},
		"init":         {"sidecar/gate/gate.go:30: init()"},
		"state":        {"variable counter", "variable Table", "variable touched", "variable taken"},
		"names":        {"shared/common"},
		"docs":         {"shared/common: has no doc.go", "sidecar/gate: has no doc.go"},
		"size":         {"shared/lease/long.go: 604 lines", "Long has 87 lines"},
	}
}

func TestEachRuleFindsWhatBreaksIt(t *testing.T) {
	t.Parallel()
	tree := load(t, "testdata/broken")
	want := broken()
	for _, rule := range archtest.Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			t.Parallel()
			require.NotEmpty(t, want[rule.Name], "the rule has no fixture that breaks it")
			found := strings.Join(rule.Check(tree), "\n")
			for _, place := range want[rule.Name] {
				require.Contains(t, found, place)
			}
			for _, innocent := range []string{"errFine", "table can", "shared/scope", "Short"} {
				require.NotContains(t, found, innocent)
			}
		})
	}
}

func TestFieldCasesAreNamedByTests(t *testing.T) {
	t.Parallel()
	for _, missing := range archtest.MissingCases(load(t, "../..")) {
		t.Error(missing)
	}
}

func TestAFieldCaseWithoutATestIsMissed(t *testing.T) {
	t.Parallel()
	tree := load(t, "testdata/broken")
	missing := strings.Join(archtest.MissingCases(tree), "\n")
	require.Contains(t, missing, "FC-03: no test names it")
	require.NotContains(t, missing, "FC-02:")
	require.Contains(t, missing, "FC-08:", "a function that is no test proves nothing")
}
