package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/forgeyard/concurrency/authority"
	"github.com/forgeyard/concurrency/shared/conffile"
	"github.com/forgeyard/concurrency/shared/telemetry"
)

// run is the program without the process around it.
func run(ctx context.Context, args, environ []string, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root := newRoot(environ)
	root.SetArgs(args)
	root.SetOut(out)
	return root.ExecuteContext(ctx)
}

func newRoot(environ []string) *cobra.Command {
	root := &cobra.Command{
		Use: "forgeyard-authority", Short: "The authority that grants leases with fencing epochs",
		SilenceUsage: true, SilenceErrors: true, Version: authority.Software,
	}
	l := &loader{environ: environ}
	root.AddCommand(serveCommand(l), migrateCommand(l), checkCommand(l), devCommand(l), caCommand(l), recoverCommand(l), switchoverCommand(l))
	return root
}

// loader reads the configuration for a subcommand.
type loader struct {
	environ []string
	path    string
}

func (l *loader) flag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&l.path, "config", "c", "", "YAML file of the configuration")
	cmd.Flags().String("log.level", "info", "debug, info, warn or error")
	cmd.Flags().String("log.format", "json", "json or console")
}

func (l *loader) load(cmd *cobra.Command) (authority.Config, error) {
	cfg := authority.DefaultConfig()
	err := conffile.Load(&cfg, conffile.Sources{
		Path: l.path, EnvPrefix: authority.EnvPrefix, Environ: l.environ, Flags: cmd.Flags(),
	})
	return cfg, err
}

func serveCommand(l *loader) *cobra.Command {
	cmd := &cobra.Command{Use: "serve", Short: "Serve sidecars and people until SIGTERM", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := l.load(cmd)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), cfg, nil)
		}}
	l.flag(cmd)
	return cmd
}

// serve runs an authority; announced, when given, learns the addresses.
func serve(ctx context.Context, cfg authority.Config, announced func(authority.Addresses) error) error {
	log, err := telemetry.NewLogger(cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return err
	}
	a, err := authority.New(cfg, log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if announced != nil {
		go func() {
			select {
			case at := <-a.Serving():
				if err := announced(at); err != nil {
					cancel(err)
				}
			case <-ctx.Done():
			}
		}()
	}
	err = a.Run(ctx)
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

func migrateCommand(l *loader) *cobra.Command {
	cmd := &cobra.Command{Use: "migrate", Short: "Bring the store's schema up to this program", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := l.load(cmd)
			if err != nil {
				return err
			}
			if err := authority.Migrate(cmd.Context(), cfg); err != nil {
				return fmt.Errorf("migrate %s: %w", cfg.Store.Kind, err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), "OK")
			return nil
		}}
	l.flag(cmd)
	return cmd
}

func checkCommand(l *loader) *cobra.Command {
	show := false
	cmd := &cobra.Command{Use: "check-config", Short: "Check the configuration and print OK or every problem", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := l.load(cmd)
			if err != nil {
				return err
			}
			if err := cfg.Validate(); err != nil {
				return err
			}
			if show {
				text, err := cfg.Render()
				if err != nil {
					return err
				}
				_, err = cmd.OutOrStdout().Write(text)
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "OK")
			return nil
		}}
	l.flag(cmd)
	cmd.Flags().BoolVar(&show, "print", false, "print the configuration in force, without secrets")
	return cmd
}
