package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/authority/store/sqlite"
	"github.com/forgeyard/concurrency/authority/store/storetest"
	"github.com/forgeyard/concurrency/shared/clock"
)

// records is one file; a second "replica" is the same process.
type records struct{ store *sqlite.Store }

func (r records) Open(testing.TB) store.Store { return r.store }

func (r records) Waiting(testing.TB) int64 { return r.store.Waited() }

func config(t testing.TB) sqlite.Config {
	t.Helper()
	return sqlite.Config{
		Path: filepath.Join(t.TempDir(), "authority.db"), MemoryPath: filepath.Join(t.TempDir(), "memory.json"),
		Clock: clock.System(), MaxTTL: storetest.MaxTTL,
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.DB {
		s, err := sqlite.Open(t.Context(), config(t))
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		return records{s}
	})
}
