package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Secrets that let nodes join"}
	cmd.AddCommand(a.createTokenCommand(), a.listTokensCommand(), a.revokeTokenCommand())
	return cmd
}

func (a *app) createTokenCommand() *cobra.Command {
	r := &pb.CreateJoinTokenRequest{}
	var valid time.Duration
	cmd := &cobra.Command{
		Use: "create", Short: "Print a new join token for a sidecar's join_token_file", Args: cobra.NoArgs,
		Long: "Print a new join token. It is a secret, and is shown this once.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if valid <= 0 || r.GetUses() <= 0 {
				return &exitError{code: exitUsage, text: fmt.Sprintf("--valid-for %s, --uses %d: must be above 0", valid, r.GetUses())}
			}
			r.ValidFor = durationpb.New(valid)
			return a.authority(func(c pb.ConcurrencyServiceClient) error {
				answer, err := c.CreateJoinToken(cmd.Context(), r)
				if err != nil {
					return err
				}
				return a.print(answer, func(g *grid) { g.line("%s", answer.GetToken()) })
			})
		},
	}
	cmd.Flags().StringSliceVar(&r.Tenants, "tenant", nil, "tenants of the node, several with commas (needed)")
	cmd.Flags().Int32Var(&r.Uses, "uses", 1, "how many nodes may join with it")
	cmd.Flags().DurationVar(&valid, "valid-for", time.Hour, "how long it can be used")
	_ = cmd.MarkFlagRequired("tenant")
	return cmd
}

func (a *app) listTokensCommand() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "Join tokens by fingerprint, spent and expired ones for a while too", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.authority(func(c pb.ConcurrencyServiceClient) error {
				list, err := c.ListJoinTokens(cmd.Context(), &pb.ListJoinTokensRequest{})
				if err != nil {
					return err
				}
				return a.print(list, func(g *grid) {
					g.row("FINGERPRINT", "TENANTS", "USES LEFT", "OF", "EXPIRES", "MADE BY", "MADE")
					for _, t := range list.GetTokens() {
						g.row(t.GetFingerprint(), strings.Join(t.GetTenants(), ","), t.GetUsesLeft(), number(t.GetUses()), when(t.GetExpiresAt()), t.GetMadeBy(), when(t.GetMadeAt()))
					}
				})
			})
		}}
}

func (a *app) revokeTokenCommand() *cobra.Command {
	return &cobra.Command{Use: "revoke <fingerprint>", Short: "Make a join token worthless; the nodes that joined with it stay", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.authority(func(c pb.ConcurrencyServiceClient) error {
				r, err := c.RevokeJoinToken(cmd.Context(), &pb.RevokeJoinTokenRequest{Fingerprint: args[0]})
				if err != nil {
					return err
				}
				return a.print(r, func(g *grid) { g.line("%s is worthless now", args[0]) })
			})
		}}
}
