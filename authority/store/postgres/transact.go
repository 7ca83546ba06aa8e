package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// attempts bounds the retries of one transaction on conflicts; scopes that had
// to be created first do not count.
const attempts = 3

// begin opens a transaction whose waits are bounded. The settings are local to
// it, so that a pooler may hand the connection on.
const begin = `SELECT set_config('lock_timeout', '1s', true), set_config('idle_in_transaction_session_timeout', '1s', true),
	set_config('plan_cache_mode', 'force_generic_plan', true)`

// errMissingScopes says that some scopes have no row yet.
var errMissingScopes = errors.New("scopes to create")

// Transact implements store.Store.
func (s *Store) Transact(ctx context.Context, b store.Batch, decide func(store.Loaded) (store.Changes, error)) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	var err error
	for range attempts {
		err = s.attempt(ctx, b, decide)
		if errors.Is(err, errMissingScopes) {
			if err = s.createScopes(ctx, b.Scopes); err == nil {
				err = s.attempt(ctx, b, decide)
			}
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return err
}

func (s *Store) attempt(ctx context.Context, b store.Batch, decide func(store.Loaded) (store.Changes, error)) error {
	return s.inTransaction(ctx, func(conn *pgxpool.Conn) (*pgx.Batch, error) {
		loaded, err := load(ctx, conn, b)
		if err != nil {
			return nil, err
		}
		changes, err := decide(loaded)
		if err != nil {
			return nil, err
		}
		p := &pgx.Batch{}
		queueWrites(p, b, loaded, changes)
		return p, nil
	})
}

// inTransaction runs f, which must begin the transaction with its own first
// pipeline, then sends what f queued together with COMMIT.
func (s *Store) inTransaction(ctx context.Context, f func(*pgxpool.Conn) (*pgx.Batch, error)) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	defer conn.Release()
	writes, err := f(conn)
	if err != nil {
		rollback(ctx, conn)
		return err
	}
	delete(conn.Conn().PgConn().CustomData(), warningKey)
	writes.Queue(`COMMIT`)
	if err := commit(ctx, conn, writes); err != nil {
		rollback(ctx, conn)
		return err
	}
	return nil
}

// commit sends the writes with COMMIT and reads the answer that counts: its
// tag, and whether the server warned that a standby has it not.
func commit(ctx context.Context, conn *pgxpool.Conn, writes *pgx.Batch) error {
	results := conn.SendBatch(ctx, writes)
	for range writes.Len() - 1 {
		if _, err := results.Exec(); err != nil {
			results.Close()
			return commitError(err)
		}
	}
	tag, err := results.Exec()
	if err = errors.Join(err, results.Close()); err != nil {
		return commitError(err)
	}
	if tag.String() != "COMMIT" {
		return fmt.Errorf("%w: commit was answered %q", store.ErrUnavailable, tag)
	}
	if warning, ok := conn.Conn().PgConn().CustomData()[warningKey]; ok {
		return fmt.Errorf("%w: commit was answered with a warning: %v", store.ErrOutcomeUnknown, warning)
	}
	return nil
}

// rollback leaves the connection usable, or closes it.
func rollback(ctx context.Context, conn *pgxpool.Conn) {
	if conn.Conn().IsClosed() {
		return
	}
	if _, err := conn.Exec(ctx, `ROLLBACK`); err != nil {
		conn.Conn().Close(ctx)
	}
}

// createScopes inserts the rows of scopes that nobody asked for before, in a
// statement of its own: within the transaction it would come after the session
// locks, against the lock order.
func (s *Store) createScopes(ctx context.Context, scopes []scope.Scope) error {
	ids, names := scopeArrays(scopes)
	_, err := s.pool.Exec(ctx, `INSERT INTO scope (id, name, epoch, state, reason)
		SELECT id, name, 0, 'open', '' FROM unnest($1::bytea[], $2::text[]) AS t(id, name) ORDER BY id ON CONFLICT DO NOTHING`, ids, names)
	return translate(err)
}

func scopeArrays(scopes []scope.Scope) (ids [][]byte, names []string) {
	for _, sc := range scopes {
		id := sc.ID()
		ids, names = append(ids, id[:]), append(names, sc.String())
	}
	return ids, names
}

// load is the first pipeline. Its statements run one after the other on the
// server, each with a snapshot of its own; the clock is read by the last one.
func load(ctx context.Context, conn *pgxpool.Conn, b store.Batch) (store.Loaded, error) {
	p := &pgx.Batch{}
	p.Queue(`BEGIN`)
	p.Queue(begin)
	queueCommands(p, b.Commands)
	ids, _ := scopeArrays(b.Scopes)
	p.Queue(`SELECT `+recordColumns+` FROM scope WHERE id = ANY($1::bytea[]) ORDER BY id FOR UPDATE`, ids)
	p.Queue(`SELECT `+leaseColumns+` FROM lease l WHERE l.scope_id = ANY($1::bytea[]) AND l.state <> 'ended' ORDER BY l.epoch`, ids)
	p.Queue(`SELECT `+sessionColumns+` FROM session s
		WHERE s.id = ANY($1::text[]) OR (s.node = ANY($2::text[]) AND s.ended = '')
		   OR s.id IN (SELECT l.session FROM lease l WHERE l.scope_id = ANY($3::bytea[]) AND l.state <> 'ended')
		ORDER BY s.id FOR UPDATE OF s`, nonNil(b.Sessions), nonNil(b.Nodes), ids)
	if b.Evidence {
		queueLeftBehind(p, ids)
	}
	p.Queue(standingQuery)
	results := conn.SendBatch(ctx, p)
	l, err := readLoaded(results, b)
	if closeErr := results.Close(); err == nil {
		err = translate(closeErr)
	}
	return l, err
}

func nonNil(texts []string) []string {
	if texts == nil {
		return []string{}
	}
	return texts
}

// queueCommands inserts the ids first; a twin waits here (FC-95). What a twin
// stored is read by the next statement, whose snapshot sees its commit.
func queueCommands(p *pgx.Batch, cmds []store.Command) {
	if len(cmds) == 0 {
		return
	}
	sorted := slices.Clone(cmds)
	slices.SortFunc(sorted, func(a, b store.Command) int {
		return strings.Compare(a.Principal+"\x00"+a.ID, b.Principal+"\x00"+b.ID)
	})
	principals := column(sorted, func(c store.Command) string { return c.Principal })
	ids := column(sorted, func(c store.Command) string { return c.ID })
	digests := column(sorted, func(c store.Command) []byte { return slices.Clone(c.Digest[:]) })
	p.Queue(`INSERT INTO command (principal, id, digest, at)
		SELECT principal, id, digest, clock_timestamp() FROM unnest($1::text[], $2::text[], $3::bytea[]) AS t(principal, id, digest)
		ON CONFLICT DO NOTHING`, principals, ids, digests)
	p.Queue(`SELECT c.principal, c.id, c.digest, c.result FROM command c JOIN unnest($1::text[], $2::text[]) AS t(principal, id)
		ON c.principal = t.principal AND c.id = t.id WHERE c.result IS NOT NULL`, principals, ids)
}

func readLoaded(r pgx.BatchResults, b store.Batch) (store.Loaded, error) {
	var l store.Loaded
	for range 2 { // BEGIN and the settings
		if _, err := r.Exec(); err != nil {
			return l, translate(err)
		}
	}
	var err error
	if l.Replayed, err = readReplayed(r, b.Commands); err != nil {
		return l, err
	}
	if err = readRecords(r, &l, b.Scopes); err != nil {
		return l, err
	}
	if b.Evidence {
		if err := readLeftBehind(r, &l); err != nil {
			return l, err
		}
	}
	rows, err := r.Query()
	st, err := collect(rows, err, scanStanding)
	if err != nil {
		return l, err
	}
	if len(st) == 0 {
		return l, fmt.Errorf("%w: the authority's row is missing", store.ErrSchema)
	}
	l.Identity, l.Generation, l.Now, l.Switchover = st[0].Identity, st[0].Generation, st[0].Now, st[0].Switchover
	return l, nil
}

// readRecords reads scopes, leases and sessions, in that order; wanted scopes
// that have no row yet are errMissingScopes.
func readRecords(r pgx.BatchResults, l *store.Loaded, wanted []scope.Scope) error {
	rows, err := r.Query()
	records, err := collect(rows, err, scanRecord)
	if err != nil {
		return err
	}
	if len(records) < distinct(wanted) {
		return errMissingScopes
	}
	rows, err = r.Query()
	leases, err := collect(rows, err, scanLease)
	if err != nil {
		return err
	}
	rows, err = r.Query()
	sessions, err := collect(rows, err, scanSession)
	if err != nil {
		return err
	}
	index(l, records, leases, sessions)
	return nil
}

func distinct(scopes []scope.Scope) int {
	seen := make(map[scope.Scope]bool, len(scopes))
	for _, sc := range scopes {
		seen[sc] = true
	}
	return len(seen)
}

func byScope[T any](rows []T, of func(T) scope.Scope) map[scope.ID][]T {
	out := make(map[scope.ID][]T)
	for _, v := range rows {
		id := of(v).ID()
		out[id] = append(out[id], v)
	}
	return out
}

func index(l *store.Loaded, records []lease.Record, leases []lease.Lease, sessions []lease.Session) {
	l.Scopes = make(map[scope.ID]lease.Record, len(records))
	for _, r := range records {
		l.Scopes[r.Scope.ID()] = r
	}
	l.Leases = byScope(leases, func(ls lease.Lease) scope.Scope { return ls.Scope })
	l.Sessions = make(map[string]lease.Session, len(sessions))
	for _, s := range sessions {
		l.Sessions[s.ID] = s
	}
}

func readReplayed(r pgx.BatchResults, cmds []store.Command) (map[int]store.Stored, error) {
	replayed := map[int]store.Stored{}
	if len(cmds) == 0 {
		return replayed, nil
	}
	if _, err := r.Exec(); err != nil {
		return nil, translate(err)
	}
	at := make(map[[2]string]int, len(cmds))
	for i, c := range cmds {
		at[[2]string{c.Principal, c.ID}] = i
	}
	rows, err := r.Query()
	if err != nil {
		return nil, translate(err)
	}
	defer rows.Close()
	for rows.Next() {
		var key [2]string
		var digest []byte
		var stored store.Stored
		if err := rows.Scan(&key[0], &key[1], &digest, &stored.Result); err != nil {
			return nil, translate(err)
		}
		copy(stored.Digest[:], digest)
		replayed[at[key]] = stored
	}
	return replayed, translate(rows.Err())
}
