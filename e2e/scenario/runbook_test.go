package scenario_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a tired person copies from the runbook must exist: each command, and
// each of its flags.
func TestRunbookCommandsExist(t *testing.T) {
	t.Parallel()
	bin, err := programs()
	require.NoError(t, err)
	text, err := os.ReadFile("../../deploy/runbook/README.md")
	require.NoError(t, err)
	seen := 0
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			line = strings.TrimSpace(line)
			if line == "" {
				continue
			}
			seen++
			// The shell takes the quotes apart; help is printed only when the
			// command and every flag before it are known.
			cmd := exec.CommandContext(t.Context(), "sh", "-c", filepath.Join(bin, line)+" --help")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s:\n%s", line, out)
			requireUsage(t, line, string(out))
		}
	}
	require.Greater(t, seen, 12)
}

// requireUsage compares the words of line before its first flag with the usage
// that was printed: a parent prints its own help for a subcommand that does
// not exist, and exits with 0.
func requireUsage(t *testing.T, line, help string) {
	t.Helper()
	_, rest, found := strings.Cut(help, "Usage:\n")
	require.True(t, found, "%s: no usage:\n%s", line, help)
	usage, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	words := strings.Fields(line)
	if i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") }); i >= 0 {
		words = words[:i]
	}
	want := slices.DeleteFunc(strings.Fields(usage), func(w string) bool { return w == "[flags]" })
	require.Len(t, words, len(want), "%s: the usage is %q", line, usage)
	for i, w := range want {
		if !strings.HasPrefix(w, "<") {
			require.Equal(t, w, words[i], "%s: the usage is %q", line, usage)
		}
	}
}
