package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/identity"
)

// The example is checked as people would check it, with files at its paths.
func TestTheExampleConfigurationPassesCheckConfig(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../deploy/config/sidecar.yaml")
	require.NoError(t, err)
	dir := t.TempDir()
	ca, err := identity.NewCA(time.Now(), identity.DefaultTrustDomain)
	require.NoError(t, err)
	require.NoError(t, ca.Save(dir))
	require.Contains(t, string(text), "/etc/forgeyard/")
	path := filepath.Join(dir, "sidecar.yaml")
	require.NoError(t, os.WriteFile(path, bytes.ReplaceAll(text, []byte("/etc/forgeyard"), []byte(dir)), 0o600))
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"check-config", "-c", path}, nil, &out))
	require.Equal(t, "OK\n", out.String())
}
