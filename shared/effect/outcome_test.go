package effect_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/effect"
)

// TestFC62_AmbiguousIsUnknownNeverGuessed is the whole decision table.
func TestFC62_AmbiguousIsUnknownNeverGuessed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		attempt effect.Attempt
		want    effect.State
	}{
		{effect.Attempt{Sent: effect.NotSent, Cause: "connection refused"}, effect.Failed},
		{effect.Attempt{Sent: effect.Partly, Cause: "timeout"}, effect.Unknown},
		{effect.Attempt{Sent: effect.Partly, Cause: "cut"}, effect.Unknown},
		{effect.Attempt{Sent: effect.Answered, Status: 200}, effect.Succeeded},
		{effect.Attempt{Sent: effect.Answered, Status: 201}, effect.Succeeded},
		{effect.Attempt{Sent: effect.Answered, Status: 204}, effect.Succeeded},
		{effect.Attempt{Sent: effect.Answered, Status: 202}, effect.Unknown},
		{effect.Attempt{Sent: effect.Answered, Status: 307}, effect.Failed},
		{effect.Attempt{Sent: effect.Answered, Status: 400}, effect.Failed},
		{effect.Attempt{Sent: effect.Answered, Status: 408}, effect.Unknown},
		{effect.Attempt{Sent: effect.Answered, Status: 409}, effect.Failed},
		{effect.Attempt{Sent: effect.Answered, Status: 412}, effect.Failed},
		{effect.Attempt{Sent: effect.Answered, Status: 429}, effect.Unknown},
		{effect.Attempt{Sent: effect.Answered, Status: 500}, effect.Unknown},
		{effect.Attempt{Sent: effect.Answered, Status: 503}, effect.Unknown},
		{effect.Attempt{}, effect.Unknown},
	} {
		got, reason := effect.Outcome(tc.attempt)
		require.Equal(t, tc.want, got, "%+v", tc.attempt)
		require.Equal(t, got != effect.Succeeded, reason != "", "every outcome but success says why: %+v", tc.attempt)
	}
}
