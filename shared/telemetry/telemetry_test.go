package telemetry_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/telemetry"
)

func TestReadyzSaysWhyItIsNotReady(t *testing.T) {
	t.Parallel()
	ready := errors.New("store unavailable")
	h := telemetry.Handler(telemetry.NewRegistry(), func() error { return ready })
	get := func(path string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
		return rec
	}
	rec := get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, rec.Code)
	require.Contains(t, rec.Body.String(), "store unavailable")
	ready = nil
	require.Equal(t, http.StatusOK, get("/readyz").Code)
	require.Equal(t, http.StatusOK, get("/healthz").Code)
	require.Contains(t, get("/metrics").Body.String(), "go_goroutines")
}

func TestNewLoggerNamesFieldValueAndChoice(t *testing.T) {
	t.Parallel()
	_, err := telemetry.NewLogger("loud", "json")
	require.EqualError(t, err, `log.level "loud": must be debug, info, warn or error`)
	_, err = telemetry.NewLogger("info", "xml")
	require.EqualError(t, err, `log.format "xml": must be json or console`)
}
