package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/forgeyard/concurrency/authority/store"
)

// forgetTimeout bounds a cut: it reads every scope that was ever granted and
// every lease that has not ended, under a lock that keeps grants out.
const forgetTimeout = time.Minute

// queueForget adds what a cut does to everything that is there. The lock on
// the scopes is held; sessions are locked as everywhere.
func queueForget(ctx context.Context, conn *pgxpool.Conn, writes *pgx.Batch, st store.Standing, inc store.Incarnation, why string) error {
	p := &pgx.Batch{}
	p.Queue(`SELECT set_config('idle_in_transaction_session_timeout', '60s', true)`)
	p.Queue(`SELECT ` + recordColumns + ` FROM scope WHERE epoch > 0`)
	p.Queue(`SELECT ` + leaseColumns + ` FROM lease l WHERE l.state <> 'ended' ORDER BY l.epoch`)
	p.Queue(`SELECT ` + sessionColumns + ` FROM session s
		WHERE s.id IN (SELECT l.session FROM lease l WHERE l.state <> 'ended') ORDER BY s.id FOR UPDATE OF s`)
	results := conn.SendBatch(ctx, p)
	l, err := readForget(results)
	if closeErr := results.Close(); err == nil {
		err = translate(closeErr)
	}
	if err != nil {
		return err
	}
	l.Now, l.Generation, l.Identity = st.Now, st.Generation, st.Identity
	changes, err := inc.Forget(l, why)
	if err != nil {
		return err
	}
	queueWrites(writes, store.Batch{}, l, changes)
	return nil
}

func readForget(r pgx.BatchResults) (store.Loaded, error) {
	var l store.Loaded
	if _, err := r.Exec(); err != nil {
		return l, translate(err)
	}
	return l, readRecords(r, &l, nil)
}

// PrepareSwitchover implements store.Store.
func (s *Store) PrepareSwitchover(ctx context.Context, nonce string) error {
	_, err := s.pool.Exec(ctx, `UPDATE authority SET switchover = $1, switchover_at = clock_timestamp()`, nonce)
	return translate(err)
}
