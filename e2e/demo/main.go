package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run is the program without the process around it.
func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	fs := flag.NewFlagSet("demo", flag.ContinueOnError)
	bin := fs.String("bin", "bin", "directory of the three programs")
	dir := fs.String("dir", ".run", "directory of the stack, for up and down")
	socket := fs.String("socket", "", "of a sidecar, for deployer")
	name := fs.String("name", "", "of a deployer")
	scope := fs.String("scope", prod, "that a deployer wants")
	if err := fs.Parse(args); err != nil {
		return err
	}
	switch verb := fs.Arg(0); verb {
	case "":
		return demo(ctx, *bin, out)
	case "up":
		return up(ctx, *bin, *dir, out)
	case "down":
		return down(*dir, out)
	case "deployer":
		return deploy(ctx, *name, *socket, *scope, in, out)
	case "provider":
		return serveProvider(ctx, *dir)
	default:
		return fmt.Errorf("%q: must be up, down or nothing", verb)
	}
}
