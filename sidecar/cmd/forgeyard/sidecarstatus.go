package main

import (
	"github.com/spf13/cobra"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

func (a *app) sidecarCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "sidecar", Short: "What the sidecar of this machine knows"}
	cmd.AddCommand(
		&cobra.Command{Use: "status", Short: "Its session, and the holds of this machine", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return a.local(func(c pb.LocalServiceClient) error {
					r, err := c.Status(cmd.Context(), &pb.StatusRequest{})
					if err != nil {
						return err
					}
					return a.print(r, func(g *grid) { sidecarRows(g, r) })
				})
			}},
	)
	return cmd
}

func sidecarRows(g *grid, r *pb.StatusResponse) {
	g.row("node", r.GetNode())
	g.row("software", r.GetSoftware())
	g.row("authority", r.GetAuthority(), yes(r.GetConnected(), "connected", "not connected"))
	g.row("session", r.GetSession(), r.GetState(), r.GetDetail())
	g.row("confirmed", span(r.GetConfirmedAgo())+" ago")
	g.row("proxy", r.GetProxy())
	if len(r.GetHolds()) == 0 {
		g.line("no holds")
		return
	}
	g.line("")
	g.row("SCOPE", "HOLDER", "EPOCH", "STATE", "WHY", "CERTAIN FOR", "DEADLINE IN", "IN FLIGHT", "UNKNOWN")
	for _, h := range r.GetHolds() {
		g.row(h.GetScope(), holderText(h.GetOwner()), h.GetEpoch(), h.GetState(), h.GetReason(), span(h.GetUncertainIn()), span(h.GetDeadlineIn()), h.GetInFlight(), h.GetUnknownEffects())
	}
}
