package mutants_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryMutantIsKilled lists each guard with the test that noticed its
// absence.
func TestEveryMutantIsKilled(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	list := all()
	require.GreaterOrEqual(t, len(list), 20)
	for _, pkg := range []string{rules, epochs, ownership, gate} {
		out, err := goTest(t, root, pkg, "")
		require.NoError(t, err, "without any mutant %s must pass:\n%s", pkg, out)
	}
	t.Run("mutants", func(t *testing.T) {
		for _, m := range list {
			t.Run(m.guard, func(t *testing.T) {
				t.Parallel()
				out, err := goTest(t, root, m.tests, overlay(t, root, m))
				require.Error(t, err, "survived: %s without %q", m.file, m.old)
				require.Contains(t, out, "--- FAIL", "it must fail as a test, not as a build:\n%s", out)
				if strings.HasPrefix(m.tests, model) {
					require.Contains(t, out, "=> ", "the search must find a broken property, not another count of states:\n%s", out)
				}
				t.Logf("without %q: killed by %s", m.guard, killers(out))
			})
		}
	})
	if !t.Failed() {
		t.Logf("%d mutants, all killed", len(list))
	}
}

// overlay writes the mutated copy and the file that tells the go command.
func overlay(t *testing.T, root string, m mutant) string {
	t.Helper()
	original := filepath.Join(root, m.file)
	text, err := os.ReadFile(original)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(text), m.old), "%s: the text of the guard %q must occur exactly once", m.file, m.guard)
	dir := t.TempDir()
	mutated := filepath.Join(dir, filepath.Base(m.file))
	require.NoError(t, os.WriteFile(mutated, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o600))
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{original: mutated}})
	require.NoError(t, err)
	file := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, replace, 0o600))
	return file
}

func goTest(t *testing.T, root, pkg, overlay string) (string, error) {
	t.Helper()
	args := []string{"test", "-count=1", "-vet=off", "-timeout=2m"}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	args = append(args, strings.Fields(pkg)...)
	if pkg == rules || pkg == epochs { // property tests: leave no file behind
		args = append(args, "-args", "-rapid.nofailfile")
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// killers names the tests that failed.
func killers(out string) string {
	var names []string
	for line := range strings.Lines(out) {
		if rest, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			name, _, _ := strings.Cut(rest, " ")
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}
