package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// process is what a command knows of the process it runs in.
type process struct {
	Environ  []string
	In       io.Reader
	Out, Err io.Writer
}

func (p process) env(name, otherwise string) string {
	for _, line := range p.Environ {
		if value, ok := strings.CutPrefix(line, name+"="); ok && value != "" {
			return value
		}
	}
	return otherwise
}

// exitError carries an exit code of its own; an empty text prints nothing.
type exitError struct {
	code int
	text string
}

// Error implements error.
func (e *exitError) Error() string { return e.text }

// defaultSocket is where the unit file puts it.
const defaultSocket = "/run/forgeyard-sidecar/local.sock"

// app is what all commands share.
type app struct {
	process
	config, socket, output string
}

// run is the program without the process around it.
func run(ctx context.Context, args []string, p process) error {
	a := &app{process: p}
	root := &cobra.Command{
		Use: "forgeyard", Short: "See, take and end leases on things that must not be touched by two at once",
		SilenceUsage: true, SilenceErrors: true,
	}
	f := root.PersistentFlags()
	f.StringVarP(&a.config, "config", "c", p.env("FORGEYARD_CONFIG", ""), "YAML file with address, ca and token_file of the authority (FORGEYARD_CONFIG)")
	f.StringVar(&a.socket, "socket", p.env("FORGEYARD_SOCKET", defaultSocket), "socket of this machine's sidecar (FORGEYARD_SOCKET)")
	f.StringVarP(&a.output, "output", "o", tableFormat, "table, json or yaml")
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return checkFormat(a.output) }
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &exitError{code: exitUsage, text: err.Error()} })
	root.AddCommand(a.concurrencyCommand(), a.sidecarCommand(), a.tokenCommand(), a.runCommand(), a.superviseCommand())
	root.SetArgs(args)
	root.SetIn(p.In)
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	return root.ExecuteContext(ctx)
}
