package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Secrets that let nodes join"}
	cmd.AddCommand(a.createTokenCommand())
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
