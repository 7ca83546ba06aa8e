package main

import (
	"github.com/spf13/cobra"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

func (a *app) concurrencyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "concurrency", Short: "What the authority knows"}
	cmd.AddCommand(a.statusCommand(), a.leasesCommand(), a.nodesCommand(), a.effectsCommand(), a.explainCommand(), a.auditCommand(), a.forceCommand(),
		a.blockedCommand(), a.evidenceCommand(), a.reconcileCommand(), a.resolveCommand())
	return cmd
}

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{Use: "status", Short: "The authority at a glance", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.authority(func(c pb.ConcurrencyServiceClient) error {
				r, err := c.GetStatus(cmd.Context(), &pb.GetStatusRequest{})
				if err != nil {
					return err
				}
				return a.print(r, func(g *grid) {
					g.row("authority", r.GetAuthorityId())
					g.row("software", r.GetSoftware())
					g.row("store", r.GetStore())
					g.row("generation", r.GetGeneration())
					g.row("nodes connected", r.GetNodesConnected())
					g.row("sessions alive", r.GetSessionsAlive())
					g.row("leases live", r.GetLeasesLive())
					g.row("leases draining", r.GetLeasesDraining())
					g.row("scopes closed", r.GetScopesBlocked())
					g.row("time pause", yes(r.GetTimePause(), "yes, for "+span(r.GetTimePauseRemaining()), "no"))
				})
			})
		}}
}

func (a *app) leasesCommand() *cobra.Command {
	r := &pb.ListLeasesRequest{}
	cmd := &cobra.Command{Use: "leases", Short: "Who holds what", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.authority(func(c pb.ConcurrencyServiceClient) error {
				list, err := c.ListLeases(cmd.Context(), r)
				if err != nil {
					return err
				}
				return a.print(list, func(g *grid) { leaseRows(g, list.GetLeases()) })
			})
		}}
	cmd.Flags().StringVar(&r.Scope, "scope", "", "only this scope")
	cmd.Flags().StringVar(&r.Node, "node", "", "only this node")
	cmd.Flags().BoolVar(&r.Ended, "ended", false, "ended leases too")
	cmd.Flags().Int32Var(&r.Limit, "limit", 0, "at most so many (0: 1000)")
	return cmd
}

func leaseRows(g *grid, rows []*pb.LeaseRow) {
	g.row("SCOPE", "HOLDER", "NODE", "EPOCH", "STATE", "ALIVE", "EXPIRES IN", "SINCE")
	for _, r := range rows {
		l := r.GetLease()
		g.row(l.GetScope(), holderText(l.GetHolder()), l.GetNode(), l.GetEpoch(), l.GetState(), yes(r.GetAlive(), "yes", "no"), span(r.GetExpiresIn()), when(l.GetAcquiredAt()))
	}
}

func (a *app) effectsCommand() *cobra.Command {
	r := &pb.ListEffectsRequest{}
	cmd := &cobra.Command{Use: "effects", Short: "Outgoing calls, as the sidecars' journals know them", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.authority(func(c pb.ConcurrencyServiceClient) error {
				list, err := c.ListEffects(cmd.Context(), r)
				if err != nil {
					return err
				}
				return a.print(list, func(g *grid) {
					effectRows(g, list.GetEffects())
					for _, n := range list.GetUnreachableNodes() {
						g.line("node %s did not answer: its effects are missing here", n)
					}
				})
			})
		}}
	cmd.Flags().StringVar(&r.Scope, "scope", "", "only this scope")
	cmd.Flags().StringVar(&r.Node, "node", "", "only this node")
	cmd.Flags().StringVar(&r.State, "state", "", "only this state, for example unknown")
	cmd.Flags().Int32Var(&r.Limit, "limit", 0, "at most so many a node (0: 100)")
	return cmd
}

func effectRows(g *grid, effects []*pb.Effect) {
	g.row("EFFECT", "SCOPE", "EPOCH", "NODE", "PROVIDER", "OPERATION", "STATE", "REASON", "STATUS", "STARTED")
	for _, e := range effects {
		g.row(e.GetId(), e.GetScope(), e.GetEpoch(), e.GetNode(), e.GetProvider(), e.GetOperation(), e.GetState(), e.GetReason(), number(e.GetStatus()), when(e.GetStartedAt()))
	}
}
