package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgeyard/concurrency/authority"
	"github.com/forgeyard/concurrency/shared/identity"
)

func caCommand(l *loader) *cobra.Command {
	cmd := &cobra.Command{Use: "ca", Short: "The CA that gives nodes their certificates"}
	cmd.AddCommand(showCACommand(l), rotateCommand(l), retireCommand(l))
	return cmd
}

// onFiles is a command on the files of a configuration, or of a dev authority.
func onFiles(l *loader, cmd *cobra.Command, do func(cmd *cobra.Command, cfg authority.Config) error) *cobra.Command {
	dir := ""
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := l.load(cmd)
		if err != nil {
			return err
		}
		switch {
		case dir != "":
			if err := authority.CompleteDev(dir, &cfg); err != nil {
				return err
			}
		case l.path == "":
			return errors.New("--config or, for a dev authority, --data-dir: one is needed")
		}
		return do(cmd, cfg)
	}
	l.flag(cmd)
	cmd.Flags().StringVar(&dir, "data-dir", "", "directory of a dev authority, instead of a configuration")
	return cmd
}

func printCA(cmd *cobra.Command, status authority.CAStatus) {
	line := func(what string, c *x509.Certificate) {
		fmt.Fprintf(cmd.OutOrStdout(), "%s  %s  until %s\n", what, identity.KeyIDOf(c), c.NotAfter.UTC().Format(time.DateOnly))
	}
	line("issues ", status.Issuing)
	for _, c := range status.Retiring {
		line("trusted", c)
	}
}

func showCACommand(l *loader) *cobra.Command {
	return onFiles(l, &cobra.Command{Use: "show", Short: "Say which CA issues, and which former one is still trusted"},
		func(cmd *cobra.Command, cfg authority.Config) error {
			status, err := authority.ShowCA(cfg.TLS)
			if err != nil {
				return err
			}
			printCA(cmd, status)
			return nil
		})
}

func rotateCommand(l *loader) *cobra.Command {
	return onFiles(l, &cobra.Command{Use: "rotate", Short: "Make a new CA that issues from now on; the former one stays trusted"},
		func(cmd *cobra.Command, cfg authority.Config) error {
			status, err := authority.RotateCA(cfg.TLS, time.Now())
			if err != nil {
				return err
			}
			printCA(cmd, status)
			fmt.Fprintf(cmd.OutOrStdout(), "Next: bring %s to every replica and restart them, then %s, and restart them again: no replica must meet a certificate of a CA that it does not trust. One authority alone needs one restart.\n"+
				"Nodes renew within a minute of their next connection. When `ca retire` lets you, the former CA can go.\n", cfg.TLS.CA, cfg.TLS.NodeCAKey)
			return nil
		})
}

func retireCommand(l *loader) *cobra.Command {
	force := false
	cmd := onFiles(l, &cobra.Command{Use: "retire", Short: "Trust the former CA no more; refused while a node still carries a certificate of it"},
		func(cmd *cobra.Command, cfg authority.Config) error {
			status, err := authority.RetireCA(cmd.Context(), cfg, time.Now(), force)
			if err != nil {
				return err
			}
			printCA(cmd, status)
			fmt.Fprintf(cmd.OutOrStdout(), "Next: bring %s to every replica and restart them.\n", cfg.TLS.CA)
			return nil
		})
	cmd.Flags().BoolVar(&force, "force", false, "although nodes depend on it: they must enrol anew")
	return cmd
}
