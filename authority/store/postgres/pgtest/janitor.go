package pgtest

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// sweepAfter removes dir once this test process is gone, however it ended: a
// shell waits for the end of a pipe that only this process holds open. The
// server that all tests share has nobody else to stop it. The caller keeps what
// is returned: the pipe's end must not be collected before.
func sweepAfter(dir string) (io.Closer, error) {
	cmd := exec.Command("sh", "-c", `cat >/dev/null; while [ -e "$1/data/postmaster.pid" ] && kill -0 "$(head -n1 "$1/data/postmaster.pid")" 2>/dev/null; do sleep 0.1; done; rm -rf "$1"`, "sweep", dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the terminal must not reach it
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("pgtest: sweep after: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("pgtest: sweep after: %w", err)
	}
	go cmd.Wait()
	return pipe, nil
}
