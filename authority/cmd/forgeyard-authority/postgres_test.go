package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store/postgres/pgtest"
)

// freeAddress is one that nobody listened on a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// readyz polls until it answers want, which it must within the time.
func readyz(t *testing.T, ops string, want int) string {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		resp, err := http.Get("http://" + ops + "/readyz")
		if err == nil {
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			require.NoError(t, err)
			if resp.StatusCode == want {
				return string(text)
			}
		}
		require.True(t, time.Now().Before(deadline), "readyz does not become %d: %v", want, err)
	}
}

func TestServeOnPostgres(t *testing.T) {
	t.Parallel()
	path, _ := configured(t)
	ops := freeAddress(t)
	environ := []string{
		"FORGEYARD_AUTHORITY_STORE_KIND=postgres", "FORGEYARD_AUTHORITY_STORE_URL=" + pgtest.Database(t),
		"FORGEYARD_AUTHORITY_LISTEN_OPS=" + ops, "FORGEYARD_AUTHORITY_LOG_LEVEL=error",
	}
	err := run(t.Context(), []string{"serve", "-c", path}, environ, os.Stdout)
	require.ErrorContains(t, err, "forgeyard-authority migrate", "it says what to do")
	for range 2 { // again does nothing
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), []string{"migrate", "-c", path}, environ, &out))
		require.Equal(t, "OK\n", out.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, []string{"serve", "-c", path}, environ, os.Stdout) }()
	readyz(t, ops, http.StatusOK)
	cancel()
	require.NoError(t, <-done)
}

func TestNotReadyWhileTheStoreIsGone(t *testing.T) {
	t.Parallel()
	server, err := pgtest.New(t.Context(), pgtest.Options{})
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	path, _ := configured(t)
	ops := freeAddress(t)
	environ := []string{
		"FORGEYARD_AUTHORITY_STORE_KIND=postgres", "FORGEYARD_AUTHORITY_STORE_URL=" + server.Database(t),
		"FORGEYARD_AUTHORITY_LISTEN_OPS=" + ops, "FORGEYARD_AUTHORITY_LOG_LEVEL=fatal",
		"FORGEYARD_AUTHORITY_TIMING_INTERVAL=1s", "FORGEYARD_AUTHORITY_TIMING_SWEEP=100ms",
	}
	require.NoError(t, run(t.Context(), []string{"migrate", "-c", path}, environ, io.Discard))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, []string{"serve", "-c", path}, environ, os.Stdout) }()
	readyz(t, ops, http.StatusOK)
	server.Kill()
	text := readyz(t, ops, http.StatusServiceUnavailable)
	require.True(t, strings.Contains(text, "acknowledged nothing"), text)
	require.NoError(t, server.Start(t.Context()))
	readyz(t, ops, http.StatusOK)
	cancel()
	require.NoError(t, <-done, "by itself, without a restart")
}
