package scenario_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
			program, _, _ := strings.Cut(line, " ")
			require.NotContains(t, string(out), program+" [command]", "%s: is no command of its own", line)
		}
	}
	require.Greater(t, seen, 12)
}
