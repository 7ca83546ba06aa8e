package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/authority/store/postgres/pgtest"
	"github.com/forgeyard/concurrency/authority/store/storetest"
)

// pooled is one database behind PgBouncer; who waits is asked directly.
type pooled struct {
	direct records
	pooler string
}

func (p pooled) Open(t testing.TB) store.Store { return open(t, p.pooler) }

func (p pooled) Waiting(t testing.TB) int64 { return p.direct.Waiting(t) }

// TestFC53_ConformanceBehindPgBouncerInTransactionMode runs the whole suite
// through a pooler that hands a server connection to another client after
// every transaction.
func TestFC53_ConformanceBehindPgBouncerInTransactionMode(t *testing.T) {
	cfg, err := pgx.ParseConfig(migrated(t))
	require.NoError(t, err)
	port := pgtest.Bouncer(t, cfg.Port)
	t.Run("suite", func(t *testing.T) { // ends before the pooler does
		storetest.Run(t, func(t testing.TB) storetest.DB {
			db := migrated(t)
			behind := strings.Replace(db, fmt.Sprintf(":%d/", cfg.Port), fmt.Sprintf(":%d/", port), 1)
			return pooled{direct: records{db}, pooler: behind}
		})
	})
}
