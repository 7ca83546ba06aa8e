package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/sidecar/client"
	"github.com/forgeyard/concurrency/sidecar/sidecartest"
)

// patience bounds every wait of these tests.
const patience = 20 * time.Second

// slow is a session whose ttl is far longer than patience.
func slow() sidecartest.Options {
	b := lease.DefaultBudget()
	b.TTL, b.UncertainAfter, b.LockDelay = 10*time.Minute, 5*time.Minute, 3*time.Minute
	return sidecartest.Options{Budget: b}
}

func prod(t *testing.T) scope.Scope {
	t.Helper()
	s, err := scope.Parse("acme/environment:prod")
	require.NoError(t, err)
	return s
}

func dial(t *testing.T, s *sidecartest.Sidecar) *client.Client {
	t.Helper()
	c, err := client.Dial(s.Socket)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// cause waits for the end of a hold.
func cause(t *testing.T, h *client.Hold) error {
	t.Helper()
	select {
	case <-h.Context().Done():
		return context.Cause(h.Context())
	case <-time.After(patience):
		require.FailNow(t, "the hold goes on")
		return nil
	}
}
