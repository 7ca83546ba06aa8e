package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forgeyard/concurrency/authority"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/telemetry"
)

func recoverCommand(l *loader) *cobra.Command {
	reason := ""
	cmd := &cobra.Command{
		Use: "recover", Short: "Declare that the store has lost some of its history",
		Long: "Raises the generation above every token of before, ends every lease early and\n" +
			"closes the scopes whose policy is reconcile. Authorities do this by themselves\n" +
			"when they see a new database or timeline; this is for the case that nothing\n" +
			"shows it, for example a table that was restored by hand. Replicas may run;\n" +
			"with the embedded store the authority must be stopped.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if strings.TrimSpace(reason) == "" {
				return fmt.Errorf("--reason %q: must say why, for the audit log", reason)
			}
			cfg, err := l.load(cmd)
			if err != nil {
				return err
			}
			log, err := telemetry.NewLogger(cfg.Log.Level, cfg.Log.Format)
			if err != nil {
				return err
			}
			r, err := authority.Recover(cmd.Context(), cfg, reason, log)
			if errors.Is(err, store.ErrLocked) {
				return fmt.Errorf("%w: stop the authority first", err)
			}
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "generation %d: every token of before is lower than every new one\n", r.Generation)
			fmt.Fprintf(out, "%d leases are ending; nobody is granted anything for %s\n", r.Draining, cfg.Timing.MaxTTL+cfg.Timing.LockDelay)
			fmt.Fprintf(out, "%d scopes are closed until somebody has looked: forgeyard concurrency blocked\n", r.Closed)
			return nil
		},
	}
	l.flag(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why; the audit log and everybody who finds a closed scope get to see it (needed)")
	_ = cmd.MarkFlagRequired("reason")
	return cmd
}

func switchoverCommand(l *loader) *cobra.Command {
	cancel := false
	cmd := &cobra.Command{
		Use: "prepare-switchover", Short: "Announce a planned promotion of a standby, so that it ends no lease",
		Long: "Stops grants for ten minutes and leaves a nonce in the database. Promote the\n" +
			"standby once it has it: the authority finds the nonce on the new timeline,\n" +
			"raises the generation and keeps the leases. It counts once.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := l.load(cmd)
			if err != nil {
				return err
			}
			err = authority.PrepareSwitchover(cmd.Context(), cfg, cancel)
			switch {
			case errors.Is(err, store.ErrUnsupported):
				return fmt.Errorf("prepare switchover: store.kind %q: only postgres has standbys to promote", cfg.Store.Kind)
			case err != nil:
				return fmt.Errorf("prepare switchover: %w", err)
			case cancel:
				fmt.Fprintln(cmd.OutOrStdout(), "taken back: grants go on")
			default:
				fmt.Fprintln(cmd.OutOrStdout(), "prepared: nothing is granted now; promote the standby within ten minutes, or take it back with --cancel")
			}
			return nil
		},
	}
	l.flag(cmd)
	cmd.Flags().BoolVar(&cancel, "cancel", false, "take it back")
	return cmd
}
