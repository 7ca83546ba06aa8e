package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// EnvBin names a directory of programs that are built already.
const EnvBin = "FORGEYARD_BIN"

// Programs returns a directory with the programs: that of EnvBin, or dir after
// building them there.
func Programs(dir string) (string, error) {
	if bin := os.Getenv(EnvBin); bin != "" {
		return filepath.Abs(bin)
	}
	const module = "github.com/forgeyard/concurrency"
	cmd := exec.Command("go", "build", "-o", dir+"/", module+"/authority/cmd/forgeyard-authority",
		module+"/sidecar/cmd/forgeyard-sidecar", module+"/sidecar/cmd/forgeyard", module+"/e2e/demo")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build programs: %w: %s", err, out)
	}
	return dir, nil
}
