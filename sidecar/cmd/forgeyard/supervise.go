package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/forgeyard/concurrency/sidecar/client"
	"github.com/forgeyard/concurrency/sidecar/supervise"
)

// start starts the command below a second process of this program, so that
// kill -9 of one of the two leaves the other to end what was started.
func (r *underScope) start(h *client.Hold) (*supervise.Group, error) {
	if _, err := exec.LookPath(r.args[0]); err != nil {
		return nil, fmt.Errorf("start %s: %w", r.args[0], err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", r.args[0], err)
	}
	args := append([]string{"forgeyard", superviseName, strconv.Itoa(os.Getpid())}, r.args...)
	return supervise.Start(supervise.Spec{
		Path: self, Args: args, Env: r.environ(h), Files: standardFiles(), DeathSignal: syscall.SIGTERM,
	})
}

const superviseName = "supervise-for-run"

func standardFiles() []*os.File { return []*os.File{os.Stdin, os.Stdout, os.Stderr} }

// superviseCommand is that second process. Its command line is of this program
// alone, hence hidden.
func (a *app) superviseCommand() *cobra.Command {
	return &cobra.Command{
		Use: superviseName + " PID COMMAND [ARG ...]", Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return &exitError{code: exitUsage, text: "is started by `forgeyard run`"}
			}
			outer, err := strconv.Atoi(args[0])
			if err != nil {
				return &exitError{code: exitUsage, text: fmt.Sprintf("pid %q: must be a number", args[0])}
			}
			code, err := supervise.Inner(outer, supervise.Spec{Args: args[1:], Env: a.Environ, Files: standardFiles()})
			switch {
			case errors.Is(err, supervise.ErrOrphaned):
				return &exitError{code: exitNotStarted}
			case err != nil:
				return &exitError{code: exitNotStarted, text: err.Error()}
			case code == 0:
				return nil
			}
			return &exitError{code: code}
		},
	}
}
