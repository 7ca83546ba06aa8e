package main

import (
	"fmt"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/lease"
)

func (a *app) explainCommand() *cobra.Command {
	return &cobra.Command{Use: "explain <scope>", Short: "Who holds a scope, since when, whether he lives, and what you can do", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.authority(func(c pb.ConcurrencyServiceClient) error {
				r, err := c.ExplainScope(cmd.Context(), &pb.ExplainScopeRequest{Scope: args[0]})
				if err != nil {
					return err
				}
				return a.print(r, func(g *grid) { explain(g, r) })
			})
		}}
}

func explain(g *grid, r *pb.ExplainScopeResponse) {
	g.line("%s is %s (epoch %d)", r.GetScope(), r.GetState(), r.GetEpoch())
	if r.GetReason() != "" {
		g.line("  because: %s", r.GetReason())
	}
	if h := r.GetHolder(); h != nil {
		g.line("  held by %s", summaryText(h))
		if r.GetDrainReason() != "" {
			g.line("  is being ended: %s", r.GetDrainReason())
		}
	}
	if p := r.GetPolicy(); p != nil {
		g.line("  policy: %s, after an unclean end: %s (%s)", p.GetRequirement(), p.GetOnUncleanEnd(), p.GetSource())
	}
	for _, text := range r.GetAdvice() {
		g.line("  - %s", text)
	}
	if recent := r.GetRecent(); len(recent) > 0 {
		g.line("\nended before:")
		g.row("HOLDER", "NODE", "EPOCH", "ENDED", "WHY", "BY", "UNKNOWN EFFECTS")
		for _, l := range recent {
			why := l.GetEndReason()
			if l.GetEndDetail() != "" {
				why += ": " + l.GetEndDetail()
			}
			g.row(holderText(l.GetHolder()), l.GetNode(), l.GetEpoch(), when(l.GetEndedAt()), why, l.GetEndedBy(), l.GetUnknownEffects())
		}
	}
	if audit := r.GetAudit(); len(audit) > 0 {
		g.line("\naudit:")
		g.row("AT", "ACTOR", "ACTION", "EPOCH", "REASON")
		for _, e := range audit {
			g.row(when(e.GetAt()), e.GetActor(), e.GetAction(), e.GetEpoch(), e.GetReason())
		}
	}
}

// summaryText names holder, node, epoch, since and liveness in one line.
func summaryText(h *pb.Summary) string {
	alive := "its session has expired"
	if h.GetAlive() {
		alive = "alive"
		if h.GetExpiresIn() != nil {
			alive += ", expires in " + span(h.GetExpiresIn()) + " unless renewed"
		}
	}
	return fmt.Sprintf("%s on %s with epoch %d since %s (%s)", holderText(h.GetHolder()), h.GetNode(), h.GetEpoch(), when(h.GetSince()), alive)
}

func (a *app) forceCommand() *cobra.Command {
	r := &pb.ForceReleaseRequest{}
	cmd := &cobra.Command{Use: "force-release <scope>", Short: "End the present lease of a scope, on your responsibility", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Scope, r.CommandId = args[0], ulid.Make().String()
			return a.authority(func(c pb.ConcurrencyServiceClient) error {
				answer, err := c.ForceRelease(cmd.Context(), r)
				if err != nil {
					return err
				}
				return a.forced(answer)
			})
		}}
	cmd.Flags().Uint64Var(&r.Epoch, "epoch", 0, "epoch of the holder that you saw (needed; `explain` shows it)")
	cmd.Flags().StringVar(&r.Reason, "reason", "", "why; the holder and the audit log get to see it (needed)")
	cmd.Flags().BoolVar(&r.AcceptUnreconciled, "accept-unreconciled", false, "open the scope although nobody looked at what the holder left behind")
	_ = cmd.MarkFlagRequired("epoch")
	_ = cmd.MarkFlagRequired("reason")
	return cmd
}

// forced prints the answer; a refusal is an error that shows the holder.
func (a *app) forced(r *pb.ForceReleaseResponse) error {
	x := r.GetAnswer()
	switch x.GetCode() {
	case string(lease.Done), string(lease.IsDraining), string(lease.AlreadyEnded):
	default:
		text := fmt.Sprintf("not released: %s", x.GetReason())
		if x.GetDetail() != "" {
			text += ": " + x.GetDetail()
		}
		if x.GetHolder() != nil {
			text += "; held by " + summaryText(x.GetHolder())
		}
		return &exitError{code: exitRefused, text: text}
	}
	return a.print(r, func(g *grid) {
		g.line("%s", strings.TrimSuffix(x.GetCode()+": "+x.GetDetail(), ": "))
		if l := x.GetLease(); l != nil {
			g.line("lease %s of %s with epoch %d is %s", l.GetId(), holderText(l.GetHolder()), l.GetEpoch(), l.GetState())
		}
	})
}
