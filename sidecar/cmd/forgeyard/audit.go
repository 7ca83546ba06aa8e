package main

import (
	"github.com/spf13/cobra"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

func (a *app) auditCommand() *cobra.Command {
	r := &pb.ListAuditRequest{}
	cmd := &cobra.Command{Use: "audit [scope]", Short: "Who did what to a scope; without one, to nodes and join tokens", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				r.Scope = args[0]
			}
			return a.authority(func(c pb.ConcurrencyServiceClient) error {
				list, err := c.ListAudit(cmd.Context(), r)
				if err != nil {
					return err
				}
				return a.print(list, func(g *grid) {
					g.row("AT", "ACTOR", "ACTION", "NODE", "EPOCH", "REASON")
					for _, e := range list.GetEntries() {
						g.row(when(e.GetAt()), e.GetActor(), e.GetAction(), e.GetNode(), epochText(e.GetEpoch()), e.GetReason())
					}
				})
			})
		}}
	cmd.Flags().Int32Var(&r.Limit, "limit", 0, "at most so many, newest first (0: 100)")
	return cmd
}

// epochText shows no epoch as nothing: the line is about a node.
func epochText(e uint64) any {
	if e == 0 {
		return ""
	}
	return e
}
