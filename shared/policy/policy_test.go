package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/policy"
	"github.com/forgeyard/concurrency/shared/scope"
)

func TestLaterRulesWinAndNameThemselves(t *testing.T) {
	t.Parallel()
	c := policy.Config{Version: 7, Rules: []policy.Rule{
		{Match: "acme/environment:*", OnUncleanEnd: lease.FreeAfter, MaxHold: time.Hour},
		{Match: "acme/environment:prod", MaxHold: time.Minute},
	}}
	for _, tc := range []struct {
		scope, source string
		unclean       lease.OnUncleanEnd
		hold          time.Duration
	}{
		{"acme/environment:prod", "policy.rules[1]", lease.FreeAfter, time.Minute},
		{"acme/environment:test", "policy.rules[0]", lease.FreeAfter, time.Hour},
		{"umbrella/environment:prod", "default of environment", lease.ReconcileAfter, 0},
		{"acme/device:board-1", "default of device", lease.CleanAfter, 0},
		{"acme/workflow-group:ci", "default of workflow-group", lease.FreeAfter, 0},
	} {
		s, err := scope.Parse(tc.scope)
		require.NoError(t, err)
		p, source := c.For(s)
		require.Equal(t, tc.source, source)
		require.Equal(t, tc.unclean, p.OnUncleanEnd, tc.scope)
		require.Equal(t, tc.hold, p.MaxHold, tc.scope)
		require.Equal(t, uint64(7), p.Version)
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pattern, text string
		want          bool
	}{
		{"a/b:c", "a/b:c", true}, {"a/b:c", "a/b:cd", false}, {"*", "a/b:c", true},
		{"a/*:c", "a/b:c", true}, {"*:c", "a/b:c", true}, {"a/b:*", "a/b:x/y", true},
		{"a/*b*", "a/b", true}, {"a*a", "a", false}, {"a/*x*y", "a/xx-y", true}, {"a/*y*x", "a/xx-y", false},
	} {
		require.Equal(t, tc.want, policy.Match(tc.pattern, tc.text), "%s %s", tc.pattern, tc.text)
	}
}

func TestValidateNamesPathAndValue(t *testing.T) {
	t.Parallel()
	err := policy.Config{Rules: []policy.Rule{
		{Match: "a*"},
		{MinTTL: time.Second, OnUncleanEnd: "maybe", Requirement: lease.Capacity, MaxHold: -1},
	}}.Validate()
	for _, want := range []string{
		"policy.rules[1].match", "rules[1].min_ttl: 1s: must be at least 2s", `rules[1].on_unclean_end: "maybe"`,
		`rules[1].requirement: "capacity"`, "rules[1].max_hold",
	} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "rules[0]")
}

func TestConfirmingEachEffectNeedsReconciliation(t *testing.T) {
	t.Parallel()
	each := policy.Rule{Match: "acme/*", Confirm: policy.PerEffect, OnUncleanEnd: lease.ReconcileAfter}
	c := policy.Config{Rules: []policy.Rule{each, {Match: "acme/custom:*", OnUncleanEnd: lease.FreeAfter}}}
	require.NoError(t, c.Validate())
	s, err := scope.Parse("acme/custom:x")
	require.NoError(t, err)
	p, _ := c.For(s)
	require.True(t, p.ConfirmEach)
	require.Equal(t, lease.ReconcileAfter, p.OnUncleanEnd, "confirmed effects are worth nothing when nobody waits for them")
	each.OnUncleanEnd = ""
	require.ErrorContains(t, policy.Config{Rules: []policy.Rule{each}}.Validate(),
		`policy.rules[0].confirm: "per-effect": needs on_unclean_end: reconcile beside it, not ""`)
	each.Confirm = "sometimes"
	require.ErrorContains(t, policy.Config{Rules: []policy.Rule{each}}.Validate(), `"sometimes": must be per-effect`)
}
