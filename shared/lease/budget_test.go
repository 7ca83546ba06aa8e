package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/lease"
)

func TestBudgetDefaultsHold(t *testing.T) {
	t.Parallel()
	require.NoError(t, lease.DefaultBudget().Validate())
	require.Equal(t, 14*time.Second, lease.DefaultBudget().HardDeadline())
}

func TestBudgetNamesEveryBrokenRelationWithBothValues(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		change func(*lease.Budget)
		want   string
	}{
		{func(b *lease.Budget) { b.TTL = time.Second }, "ttl 1s: must be at least 2s"},
		{func(b *lease.Budget) { b.Interval = 0 }, "interval 0s: must be above 0"},
		{func(b *lease.Budget) { b.KillGrace = -time.Second }, "kill_grace -1s: must not be negative"},
		{func(b *lease.Budget) { b.Interval = 9 * time.Second }, "interval 9s: must be below uncertain_after 9s"},
		{func(b *lease.Budget) { b.UncertainAfter = 11 * time.Second }, "uncertain_after 11s + kill_grace 3s: must be below ttl - margin = 14s"},
		{func(b *lease.Budget) { b.Margin, b.LockDelay = 499*time.Millisecond, 9*time.Second }, "margin 499ms: must be at least 500ms"},
		{func(b *lease.Budget) { b.LockDelay = 2499 * time.Millisecond }, "margin 1s + lock_delay 2.499s: must be at least 500ms + ttl/5 = 3.5s"},
	} {
		b := lease.DefaultBudget()
		tc.change(&b)
		require.ErrorContains(t, b.Validate(), tc.want)
	}
}

func TestBudgetJoinsAllProblems(t *testing.T) {
	t.Parallel()
	err := lease.Budget{}.Validate()
	for _, want := range []string{"ttl 0s", "interval 0s: must be above 0", "interval 0s: must be below", "uncertain_after 0s", "margin 0s: must", "margin 0s + lock_delay 0s"} {
		require.ErrorContains(t, err, want)
	}
}
