package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/forgeyard/concurrency/shared/conffile"
	"github.com/forgeyard/concurrency/shared/telemetry"
	"github.com/forgeyard/concurrency/sidecar"
)

// run is the program without the process around it.
func run(ctx context.Context, args, environ []string, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use: "forgeyard-sidecar", Short: "Keeps leases beside controllers and fences what they send",
		SilenceUsage: true, SilenceErrors: true, Version: sidecar.Software,
	}
	root.AddCommand(runCommand(environ), checkCommand(environ), statusCommand())
	root.SetArgs(args)
	root.SetOut(out)
	return root.ExecuteContext(ctx)
}

func load(cmd *cobra.Command, environ []string) (sidecar.Config, error) {
	path, err := cmd.Flags().GetString("config")
	if err != nil {
		return sidecar.Config{}, err
	}
	cfg := sidecar.DefaultConfig()
	err = conffile.Load(&cfg, conffile.Sources{Path: path, EnvPrefix: sidecar.EnvPrefix, Environ: environ, Flags: cmd.Flags()})
	return cfg, err
}

func configFlags(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringP("config", "c", "", "YAML file of the configuration")
	cmd.Flags().String("log.level", "info", "debug, info, warn or error")
	cmd.Flags().String("log.format", "json", "json or console")
	return cmd
}

func runCommand(environ []string) *cobra.Command {
	return configFlags(&cobra.Command{Use: "run", Short: "Serve controllers until SIGTERM", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd, environ)
			if err != nil {
				return err
			}
			log, err := telemetry.NewLogger(cfg.Log.Level, cfg.Log.Format)
			if err != nil {
				return err
			}
			s, err := sidecar.New(cfg, log)
			if err != nil {
				return err
			}
			return s.Run(cmd.Context())
		}})
}

func checkCommand(environ []string) *cobra.Command {
	return configFlags(&cobra.Command{Use: "check-config", Short: "Check the configuration and print OK or every problem", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd, environ)
			if err != nil {
				return err
			}
			if err := cfg.Validate(); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "OK")
			return nil
		}})
}

// statusCommand asks a running sidecar over its socket.
func statusCommand() *cobra.Command {
	socket := ""
	cmd := &cobra.Command{Use: "status", Short: "Print what a running sidecar knows, as JSON", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", socket)
			}}}
			req, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, "http://sidecar/v1/status", nil)
			if err != nil {
				return err
			}
			resp, err := client.Do(req)
			if err != nil {
				return fmt.Errorf("ask sidecar: %w", err)
			}
			defer resp.Body.Close()
			_, err = io.Copy(cmd.OutOrStdout(), resp.Body)
			return err
		}}
	cmd.Flags().StringVar(&socket, "socket", "/run/forgeyard/sidecar.sock", "the sidecar's socket")
	return cmd
}
