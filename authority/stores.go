package authority

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"github.com/forgeyard/concurrency/authority/feed"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/authority/store/postgres"
	"github.com/forgeyard/concurrency/authority/store/sqlite"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/epoch"
)

// openStore opens the configured store. Postgres must have been migrated; the
// embedded one migrates itself.
func openStore(ctx context.Context, cfg Config, clk clock.Clock) (store.Store, error) {
	// As the rules count it: a small step back of the clock expires nobody.
	maxTTL := cfg.Timing.MaxTTL + cfg.Timing.LockDelay
	if cfg.Store.Kind == StorePostgres {
		return postgres.Open(ctx, postgres.Config{
			URL: cfg.Store.URL, MaxConns: cfg.Store.MaxConns, MaxTTL: maxTTL,
		})
	}
	return sqlite.Open(ctx, sqlite.Config{
		Path: cfg.Store.Path, MemoryPath: cfg.Store.MemoryPath, Clock: clk, MaxTTL: maxTTL,
	})
}

// notices is how the replicas of a store tell each other; nil where there can
// be one only.
func notices(cfg StoreConfig, s store.Store) feed.Notices {
	if pg, ok := s.(*postgres.Store); ok {
		return pg.Notices(cfg.ListenURL)
	}
	return nil
}

// Migrate brings the schema of the configured store up to this program.
func Migrate(ctx context.Context, cfg Config) error {
	if cfg.Store.Kind == StorePostgres {
		return postgres.Migrate(ctx, cfg.Store.URL)
	}
	s, err := openStore(ctx, cfg, clock.System())
	if err != nil {
		return err
	}
	return s.Close()
}

// readReceiptKey reads 64 hexadecimal digits.
func readReceiptKey(path string) (epoch.ReceiptKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return epoch.ReceiptKey{}, fmt.Errorf("read receipt key: %w", err)
	}
	raw, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(raw) != len(epoch.ReceiptKey{}) {
		return epoch.ReceiptKey{}, fmt.Errorf("read receipt key %s: must be 64 hexadecimal digits", path)
	}
	return epoch.ReceiptKey(raw), nil
}
