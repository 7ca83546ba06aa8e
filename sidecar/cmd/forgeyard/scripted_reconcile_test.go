package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

func closedScope() *pb.ClosedState {
	return &pb.ClosedState{Scope: prod, State: "blocked-for-reconciliation", Epoch: 8, Reason: "lease 01JF8Z6M000000000000000000 of deployment web-41 ended: expired"}
}

func leftBehind() *pb.Evidence {
	unsettled := endedLease()
	unsettled.Unsettled, unsettled.EndReason = true, "expired"
	mine := &pb.Lease{Holder: &pb.Holder{Kind: "person", Id: "person:ann"}, Epoch: 9, Purpose: "reconcile", MaxRemaining: durationpb.New(time.Hour)}
	e := &pb.Effect{Id: "01JF8Z6M00000000000000EFF1", Lease: unsettled.GetId(), Scope: prod, Epoch: 7, Node: "node-a", Provider: "cloud", Operation: "put-plan", State: "unknown", StartedAt: at(2)}
	done := &pb.Effect{Id: "01JF8Z6M00000000000000EFF2", Lease: unsettled.GetId(), Scope: prod, Epoch: 7, Node: "node-a", Provider: "cloud", Operation: "delete-plan", State: "reconciled", StartedAt: at(2)}
	return &pb.Evidence{
		Scope: closedScope(), Holder: mine, Unsettled: []*pb.Lease{unsettled},
		Effects: []*pb.ReportedEffect{{Effect: e, ReportedAt: at(3)}, {
			Effect: done, ReportedAt: at(3), ResolvedBy: "person:ann",
			Resolution: &pb.Resolution{Effect: done.GetId(), Outcome: "failed", Seen: "plan 41 is still there"},
		}},
	}
}

func (scripted) ListBlocked(context.Context, *pb.ListBlockedRequest) (*pb.ListBlockedResponse, error) {
	return &pb.ListBlockedResponse{Scopes: []*pb.ClosedState{closedScope()}}, nil
}

func (scripted) GetEvidence(context.Context, *pb.GetEvidenceRequest) (*pb.GetEvidenceResponse, error) {
	return &pb.GetEvidenceResponse{Evidence: leftBehind()}, nil
}

func (scripted) ReconcileScope(context.Context, *pb.ReconcileScopeRequest) (*pb.ReconcileScopeResponse, error) {
	e := leftBehind()
	return &pb.ReconcileScopeResponse{Answer: &pb.Answer{Code: "acquired", Epoch: 9, Lease: e.GetHolder()}, Evidence: e}, nil
}

func (scripted) ResolveScope(_ context.Context, r *pb.ResolveScopeRequest) (*pb.ResolveScopeResponse, error) {
	detail := "1 effects are left to resolve"
	if r.GetReopen() {
		detail = "the scope is open"
	}
	return &pb.ResolveScopeResponse{Answer: &pb.Answer{Code: "done", Detail: detail}}, nil
}

func TestRenderedReconciliation(t *testing.T) {
	t.Parallel()
	config := serveAuthority(t)
	for name, args := range map[string][]string{
		"blocked.txt":   {"concurrency", "blocked"},
		"evidence.txt":  {"concurrency", "evidence", prod},
		"evidence.json": {"concurrency", "evidence", prod, "-o", "json"},
		"reconcile.txt": {"concurrency", "reconcile", prod, "--reason", "on call"},
		"resolve.txt":   {"concurrency", "resolve", prod, "--effect", "E1", "--outcome", "failed", "--seen", "nothing there", "--reopen", "all is well"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errOut := forgeyard(t, append(args, "--config", config)...)
			require.Zero(t, code, errOut)
			golden(t, name, out)
		})
	}
}

func TestResolveNamesTheFlagThatIsMissing(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"--effect", "E1", "--seen", "x"}, "--outcome 0 times"},
		{[]string{"--effect", "E1", "--outcome", "maybe", "--seen", "x"}, `--outcome "maybe": must be succeeded or failed`},
		{[]string{"--effect", "E1", "--outcome", "failed", "--seen", ""}, `--seen "": must say what you saw`},
	} {
		code, _, errOut := forgeyard(t, append([]string{"concurrency", "resolve", prod}, tc.args...)...)
		require.NotZero(t, code)
		require.Contains(t, errOut, tc.says)
	}
}
