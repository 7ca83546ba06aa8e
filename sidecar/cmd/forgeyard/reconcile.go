package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/lease"
)

func (a *app) blockedCommand() *cobra.Command {
	return &cobra.Command{Use: "blocked", Short: "Scopes that nobody can be granted before somebody has looked", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.authority(func(c pb.ConcurrencyServiceClient) error {
				list, err := c.ListBlocked(cmd.Context(), &pb.ListBlockedRequest{})
				if err != nil {
					return err
				}
				return a.print(list, func(g *grid) {
					g.row("SCOPE", "STATE", "EPOCH", "WHY")
					for _, s := range list.GetScopes() {
						g.row(s.GetScope(), s.GetState(), s.GetEpoch(), s.GetReason())
					}
				})
			})
		}}
}

func (a *app) evidenceCommand() *cobra.Command {
	return &cobra.Command{Use: "evidence <scope>", Short: "What the former holders of a scope left behind", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.authority(func(c pb.ConcurrencyServiceClient) error {
				r, err := c.GetEvidence(cmd.Context(), &pb.GetEvidenceRequest{Scope: args[0]})
				if err != nil {
					return err
				}
				return a.print(r, func(g *grid) { evidence(g, r.GetEvidence()) })
			})
		}}
}

func (a *app) reconcileCommand() *cobra.Command {
	r := &pb.ReconcileScopeRequest{}
	var keep time.Duration
	cmd := &cobra.Command{
		Use: "reconcile <scope>", Short: "Claim a blocked scope for yourself and see what was left behind",
		Long: "Claims a scope that is not open, with a new epoch that fences whoever held it\n" +
			"before, and prints the evidence. Look at the provider, then say what you saw\n" +
			"with `forgeyard concurrency resolve`. A quarantined scope needs the role\n" +
			"concurrency.admin. The claim ends by itself after --for.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.CommandId, r.Scope, r.KeepFor = ulid.Make().String(), args[0], durationpb.New(keep)
			return a.authority(func(c pb.ConcurrencyServiceClient) error {
				got, err := c.ReconcileScope(cmd.Context(), r)
				if err != nil {
					return err
				}
				return a.print(got, func(g *grid) {
					g.line("you have %s with epoch %d for %s", r.GetScope(), got.GetAnswer().GetEpoch(), span(got.GetAnswer().GetLease().GetMaxRemaining()))
					evidence(g, got.GetEvidence())
					nextSteps(g, got.GetEvidence())
				})
			})
		},
	}
	cmd.Flags().StringVar(&r.Reason, "reason", "", "why, for the audit log (needed)")
	cmd.Flags().DurationVar(&keep, "for", lease.DefaultReconcileFor, fmt.Sprintf("how long you keep it, %s to %s", lease.MinReconcileFor, lease.MaxReconcileFor))
	_ = cmd.MarkFlagRequired("reason")
	return cmd
}

func (a *app) resolveCommand() *cobra.Command {
	var effects, outcomes, seen []string
	var reopen string
	cmd := &cobra.Command{
		Use: "resolve <scope>", Short: "Say what became of effects, and reopen the scope",
		Long: "For each effect: --effect ID --outcome succeeded|failed --seen TEXT, as often as\n" +
			"needed, in this order. --reopen TEXT says what you saw of the whole and opens\n" +
			"the scope; it is refused while an effect is not resolved. Claim the scope with\n" +
			"`forgeyard concurrency reconcile` first.",
		Example: "  forgeyard concurrency resolve acme/environment:prod --effect 01J.. --outcome failed --seen 'no deployment 42 at the provider' --reopen 'version 41 runs everywhere'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			resolutions, err := pairUp(effects, outcomes, seen)
			if err != nil {
				return err
			}
			r := &pb.ResolveScopeRequest{
				CommandId: ulid.Make().String(), Scope: args[0], Resolutions: resolutions, Reopen: reopen != "", Seen: reopen,
			}
			return a.authority(func(c pb.ConcurrencyServiceClient) error {
				got, err := c.ResolveScope(cmd.Context(), r)
				if err != nil {
					return err
				}
				return a.print(got, func(g *grid) { g.line("%s: %s", r.GetScope(), got.GetAnswer().GetDetail()) })
			})
		},
	}
	cmd.Flags().StringArrayVar(&effects, "effect", nil, "id of an effect")
	cmd.Flags().StringArrayVar(&outcomes, "outcome", nil, "what became of it: succeeded or failed")
	cmd.Flags().StringArrayVar(&seen, "seen", nil, "what you saw, and where")
	cmd.Flags().StringVar(&reopen, "reopen", "", "reopen the scope; what you saw of the whole")
	return cmd
}

// pairUp joins the flags that belong together.
func pairUp(effects, outcomes, seen []string) ([]*pb.Resolution, error) {
	if len(effects) != len(outcomes) || len(effects) != len(seen) {
		return nil, fmt.Errorf("--effect is given %d times, --outcome %d times, --seen %d times: each effect needs one of each", len(effects), len(outcomes), len(seen))
	}
	var out []*pb.Resolution
	for i, id := range effects {
		if outcomes[i] != "succeeded" && outcomes[i] != "failed" {
			return nil, fmt.Errorf("--outcome %q: must be succeeded or failed", outcomes[i])
		}
		if seen[i] == "" {
			return nil, errors.New("--seen \"\": must say what you saw")
		}
		out = append(out, &pb.Resolution{Effect: id, Outcome: outcomes[i], Seen: seen[i]})
	}
	return out, nil
}

// evidence shows what was left behind, for people.
func evidence(g *grid, e *pb.Evidence) {
	s := e.GetScope()
	g.line("%s is %s (epoch %d)", s.GetScope(), s.GetState(), s.GetEpoch())
	if s.GetReason() != "" {
		g.line("  because: %s", s.GetReason())
	}
	if h := e.GetHolder(); h != nil {
		g.line("  %s by %s, for %s more", map[bool]string{true: "being reconciled", false: "held"}[h.GetPurpose() == "reconcile"], holderText(h.GetHolder()), span(h.GetMaxRemaining()))
	}
	if len(e.GetUnsettled()) > 0 {
		g.line("\nended uncleanly:")
		g.row("HOLDER", "NODE", "EPOCH", "ENDED", "WHY", "UNKNOWN EFFECTS", "ITS NODE HAS TOLD")
		for _, l := range e.GetUnsettled() {
			g.row(holderText(l.GetHolder()), l.GetNode(), l.GetEpoch(), when(l.GetEndedAt()), l.GetEndReason(), l.GetUnknownEffects(), yes(l.GetAccounted(), "everything", "not yet"))
		}
	}
	g.line("\neffects reported%s:", yes(e.GetComplete(), "", " (may be incomplete: what began after a node's last report is not here)"))
	g.row("EFFECT", "EPOCH", "NODE", "PROVIDER", "OPERATION", "STATE", "STARTED", "SEEN SINCE")
	for _, r := range e.GetEffects() {
		f := r.GetEffect()
		note := r.GetResolution().GetSeen()
		if note != "" {
			note = r.GetResolution().GetOutcome() + ": " + note + " (" + r.GetResolvedBy() + ")"
		}
		g.row(f.GetId(), f.GetEpoch(), f.GetNode(), f.GetProvider(), f.GetOperation(), f.GetState(), when(f.GetStartedAt()), note)
	}
}

// nextSteps says what a person who has claimed a scope does now.
func nextSteps(g *grid, e *pb.Evidence) {
	open := 0
	for _, r := range e.GetEffects() {
		switch r.GetEffect().GetState() {
		case "planned", "started", "unknown":
			open++
		}
	}
	g.line("\nnow look at the provider. Then:")
	if open > 0 {
		g.line("  forgeyard concurrency resolve %s --effect ID --outcome succeeded|failed --seen TEXT   (%d to resolve)", e.GetScope().GetScope(), open)
	}
	g.line("  forgeyard concurrency resolve %s --reopen TEXT", e.GetScope().GetScope())
}
