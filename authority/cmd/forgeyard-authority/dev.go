package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/forgeyard/concurrency/authority"
	"github.com/forgeyard/concurrency/shared/conffile"
)

// devOptions are dev's own flags.
type devOptions struct {
	dir, policyFile    string
	nodes, people, ops string
	tenants            []string
}

func devCommand(l *loader) *cobra.Command {
	o := devOptions{}
	cmd := &cobra.Command{Use: "dev", Short: "An authority for this machine: own CA, embedded store, loopback only", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := l.load(cmd)
			if err != nil {
				return err
			}
			return dev(cmd.Context(), cfg, o)
		}}
	l.flag(cmd)
	f := cmd.Flags()
	f.StringVar(&o.dir, "data-dir", "", "directory for everything that it makes (needed)")
	f.StringVar(&o.nodes, "listen-nodes", "127.0.0.1:0", "address for sidecars")
	f.StringVar(&o.people, "listen-people", "127.0.0.1:0", "address for gRPC and JSON")
	f.StringVar(&o.ops, "listen-ops", "127.0.0.1:0", "address for health and metrics")
	f.StringVar(&o.policyFile, "policy-file", "", "YAML file with the policy section of the configuration")
	f.StringSliceVar(&o.tenants, "tenant", []string{authority.DevTenant}, "tenants that nodes are enrolled for")
	_ = cmd.MarkFlagRequired("data-dir")
	return cmd
}

func dev(ctx context.Context, cfg authority.Config, o devOptions) error {
	cfg.Listen = authority.ListenConfig{Nodes: o.nodes, People: o.people, Ops: o.ops}
	if o.policyFile != "" {
		if err := conffile.Load(&cfg.Policy, conffile.Sources{Path: o.policyFile}); err != nil {
			return err
		}
	}
	d, err := authority.NewDev(o.dir, o.tenants, &cfg)
	if err != nil {
		return err
	}
	if err := errors.Join(d.Withdraw(), cfg.Validate()); err != nil {
		return err
	}
	if err := d.JoinToken(ctx, cfg); err != nil {
		return err
	}
	err = serve(ctx, cfg, d.Announce)
	return errors.Join(err, d.Withdraw())
}
