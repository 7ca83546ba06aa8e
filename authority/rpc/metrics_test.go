package rpc_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMetricsOfOwnershipHaveLabelsFromClosedSetsOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a, other := b.join("node-a", "acme"), b.join("node-b", "acme")
	b.pass(ttl+lockDelay+2*time.Second, a, other)
	held := a.hold("acme/environment:free-1")
	require.Equal(t, "busy", other.acquire("acme/environment:free-1").GetCode())
	b.pass(ttl+lockDelay+2*time.Second, other)
	require.Equal(t, "acquired", other.acquire("acme/environment:free-1").GetCode())
	require.Equal(t, "rejected", a.claim(held).GetCode(), "silent: a heartbeat first")
	a.beat()
	require.Equal(t, "lost", a.claim(held).GetCode())
	_, err := b.as("sre").ForceRelease(t.Context(), force("acme/environment:free-1", held.GetEpoch(), "stale"))
	require.Error(t, err)

	families, err := b.registry.Gather()
	require.NoError(t, err)
	value := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if strings.HasPrefix(f.GetName(), "concurrency_") {
				for _, l := range m.GetLabel() {
					require.True(t, slices.Contains([]string{"scope_kind", "result", "holder_kind"}, l.GetName()), "%s{%s}", f.GetName(), l.GetName())
				}
			}
			value[f.GetName()] += m.GetCounter().GetValue()
		}
	}
	require.EqualValues(t, 3, value["concurrency_lease_acquire_total"])
	require.EqualValues(t, 1, value["concurrency_lease_contention_total"])
	require.EqualValues(t, 1, value["concurrency_lease_expired_total"])
	require.EqualValues(t, 2, value["concurrency_stale_fence_rejected_total"], "the late claim and the wrong epoch")
	require.EqualValues(t, 1, value["concurrency_force_release_total"])
	require.Zero(t, value["concurrency_rule_defects_total"])
}
