package main

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

func (a *app) nodesCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "nodes", Short: "Nodes, their sessions and certificates", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.authority(func(c pb.ConcurrencyServiceClient) error {
				list, err := c.ListNodes(cmd.Context(), &pb.ListNodesRequest{})
				if err != nil {
					return err
				}
				return a.print(list, func(g *grid) { nodeRows(g, list.GetNodes()) })
			})
		}}
	cmd.AddCommand(a.revokeNodeCommand(), a.restoreNodeCommand(), a.removeNodeCommand())
	return cmd
}

func nodeRows(g *grid, nodes []*pb.Node) {
	g.row("NODE", "STATE", "ALIVE", "CONNECTED VIA", "EXPIRES IN", "LEASES", "TTL", "SINCE", "CERTIFICATE UNTIL")
	for _, n := range nodes {
		g.row(n.GetName(), n.GetState(), yes(n.GetAlive(), "yes", "no"), via(n), span(n.GetExpiresIn()),
			n.GetLeases(), span(n.GetTtl()), when(n.GetRegisteredAt()), when(n.GetCertificateExpiresAt()))
	}
	for _, n := range nodes {
		if n.GetState() != "admitted" && n.GetReason() != "" {
			g.line("%s was %s by %s on %s: %s", n.GetName(), n.GetState(), n.GetChangedBy(), when(n.GetChangedAt()), n.GetReason())
		}
	}
}

// via is the replica that the node is connected to.
func via(n *pb.Node) string {
	switch {
	case !n.GetConnected():
		return "-"
	case n.GetVia() == "":
		return "yes" // an authority of an earlier version
	}
	return n.GetVia()
}

// decisionCommand is a command on one node that takes a reason.
func (a *app) decisionCommand(use, short, long string, decide func(ctx context.Context, c pb.ConcurrencyServiceClient, node, reason string) error) *cobra.Command {
	reason := ""
	cmd := &cobra.Command{Use: use + " <node>", Short: short, Long: long, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.authority(func(c pb.ConcurrencyServiceClient) error { return decide(cmd.Context(), c, args[0], reason) })
		}}
	cmd.Flags().StringVar(&reason, "reason", "", "why; the node and the audit log get to see it (needed)")
	_ = cmd.MarkFlagRequired("reason")
	return cmd
}

func (a *app) revokeNodeCommand() *cobra.Command {
	return a.decisionCommand("revoke", "Refuse a node from now on", "Refuse a node from now on: its connections are closed, its certificates and its enrolment refused. What it holds is given to others when its process must have stopped by itself.",
		func(ctx context.Context, c pb.ConcurrencyServiceClient, node, reason string) error {
			r, err := c.RevokeNode(ctx, &pb.RevokeNodeRequest{Node: node, Reason: reason})
			if err != nil {
				return err
			}
			return a.print(r, func(g *grid) { partingLine(g, node, "revoked", r.GetLeases(), r.GetSilentIn()) })
		})
}

func partingLine(g *grid, node, what string, leases int32, in *durationpb.Duration) {
	if leases == 0 {
		g.line("%s is %s; it held nothing", node, what)
		return
	}
	g.line("%s is %s; of its leases %d drain, the last one is free in %s", node, what, leases, span(in))
}

func (a *app) restoreNodeCommand() *cobra.Command {
	return a.decisionCommand("restore", "Let a revoked node come again", "Let a revoked node come again, with the certificate that it has. Remove it instead when that certificate may be in other hands.",
		func(ctx context.Context, c pb.ConcurrencyServiceClient, node, reason string) error {
			r, err := c.RestoreNode(ctx, &pb.RestoreNodeRequest{Node: node, Reason: reason})
			if err != nil {
				return err
			}
			return a.print(r, func(g *grid) { g.line("%s may come again", node) })
		})
}

func (a *app) removeNodeCommand() *cobra.Command {
	return a.decisionCommand("remove", "Forget a node that is gone", "Forget a node that is gone: the certificates that it has are refused for good. A node of that name must enrol anew.",
		func(ctx context.Context, c pb.ConcurrencyServiceClient, node, reason string) error {
			r, err := c.RemoveNode(ctx, &pb.RemoveNodeRequest{Node: node, Reason: reason})
			if err != nil {
				return err
			}
			return a.print(r, func(g *grid) { partingLine(g, node, "removed", r.GetLeases(), r.GetSilentIn()) })
		})
}
