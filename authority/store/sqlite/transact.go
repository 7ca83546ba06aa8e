package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// Transact implements store.Store. The one writer connection is the lock: a
// second transaction waits for it before it reads anything. Once begun, the
// caller's context no longer counts.
func (s *Store) Transact(ctx context.Context, b store.Batch, decide func(store.Loaded) (store.Changes, error)) error {
	return s.inWrite(ctx, func(ctx context.Context, tx writeTx) error {
		loaded, err := s.load(ctx, tx, b)
		if err != nil {
			return err
		}
		loaded.Now = s.now() // last
		changes, err := decide(loaded)
		if err != nil {
			return err
		}
		return s.save(ctx, tx, b, loaded, changes)
	})
}

// inWrite runs f in the one write transaction. Its rollback is certain: until
// COMMIT was sent nothing is in the file.
func (s *Store) inWrite(ctx context.Context, f func(context.Context, writeTx) error) error {
	conn, err := s.write.Conn(ctx) // waits its turn; the caller may give up here
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
		}
		return translate(err)
	}
	defer conn.Close()
	ctx = context.WithoutCancel(ctx)
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return translate(err)
	}
	defer tx.Rollback()
	if err := f(ctx, writeTx{Tx: tx, prepared: s.prepared}); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, err)
	}
	return nil
}

func (s *Store) load(ctx context.Context, tx writeTx, b store.Batch) (store.Loaded, error) {
	l := store.Loaded{}
	var err error
	if l.Replayed, err = s.insertCommands(ctx, tx, b.Commands); err != nil {
		return l, err
	}
	if l.Scopes, err = lockScopes(ctx, tx, b.Scopes); err != nil {
		return l, err
	}
	if l.Leases, err = loadLeases(ctx, tx, b.Scopes); err != nil {
		return l, err
	}
	if l.Sessions, err = lockSessions(ctx, tx, b, l.Leases); err != nil {
		return l, err
	}
	if b.Evidence {
		if err := loadLeftBehind(ctx, tx, b.Scopes, &l); err != nil {
			return l, err
		}
	}
	l.Identity, l.Generation, err = standing(ctx, tx)
	return l, err
}

// insertCommands is the first statement of the transaction (FC-95). It returns
// what is stored for ids that were there before.
func (s *Store) insertCommands(ctx context.Context, tx writeTx, cmds []store.Command) (map[int]store.Stored, error) {
	replayed := map[int]store.Stored{}
	if len(cmds) == 0 {
		return replayed, nil
	}
	at := micros(s.now())
	for i, c := range cmds {
		done, err := tx.ExecContext(ctx, insertCommand, c.Principal, c.ID, c.Digest[:], at)
		if err != nil {
			return nil, translate(err)
		}
		if n, err := done.RowsAffected(); err != nil || n == 1 {
			continue
		}
		var digest []byte
		var stored store.Stored
		err = tx.QueryRowContext(ctx, selectCommand, c.Principal, c.ID).
			Scan(&digest, &stored.Result)
		if err != nil {
			return nil, translate(err)
		}
		copy(stored.Digest[:], digest)
		replayed[i] = stored
	}
	return replayed, nil
}

func lockScopes(ctx context.Context, tx writeTx, scopes []scope.Scope) (map[scope.ID]lease.Record, error) {
	out := make(map[scope.ID]lease.Record, len(scopes))
	for _, sc := range scopes {
		id := sc.ID()
		rec, err := scanRecord(tx.QueryRowContext(ctx, selectScope, id[:]))
		if errors.Is(err, sql.ErrNoRows) {
			rec = lease.Record{Scope: sc, State: lease.Open}
			_, err = tx.ExecContext(ctx, insertScope, id[:], sc.String())
		}
		if err != nil {
			return nil, translate(err)
		}
		out[id] = rec
	}
	return out, nil
}

func loadLeases(ctx context.Context, tx querier, scopes []scope.Scope) (map[scope.ID][]lease.Lease, error) {
	out := make(map[scope.ID][]lease.Lease, len(scopes))
	for _, sc := range scopes {
		id := sc.ID()
		rows, err := tx.QueryContext(ctx, leasesOfScope, id[:])
		leases, err := collect(rows, err, scanLease)
		if err != nil {
			return nil, err
		}
		if len(leases) > 0 {
			out[id] = leases
		}
	}
	return out, nil
}

// lockSessions loads the sessions asked for and those of the holders.
func lockSessions(ctx context.Context, tx querier, b store.Batch, held map[scope.ID][]lease.Lease) (map[string]lease.Session, error) {
	ids := slices.Clone(b.Sessions)
	for _, leases := range held {
		for _, l := range leases {
			ids = append(ids, l.Session)
		}
	}
	out := make(map[string]lease.Session, len(ids))
	get := func(query, arg string) error {
		session, err := scanSession(tx.QueryRowContext(ctx, query, arg))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return translate(err)
		}
		out[session.ID] = session
		return nil
	}
	for _, id := range ids {
		if _, have := out[id]; have {
			continue
		}
		if err := get(sessionByID, id); err != nil {
			return nil, err
		}
	}
	for _, node := range b.Nodes {
		if err := get(sessionByNode, node); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *Store) save(ctx context.Context, tx writeTx, b store.Batch, l store.Loaded, c store.Changes) error {
	for _, rec := range c.Scopes {
		id := rec.Scope.ID()
		_, err := tx.ExecContext(ctx, updateScope, int64(rec.Epoch), string(rec.State), rec.Reason, rec.Forgotten, id[:])
		if err != nil {
			return translate(err)
		}
	}
	if err := putSessions(ctx, tx, c.Sessions); err != nil {
		return err
	}
	if err := putLeases(ctx, tx, c.Leases); err != nil {
		return err
	}
	for i, result := range c.Results {
		cmd := b.Commands[i]
		if _, old := l.Replayed[i]; old {
			return fmt.Errorf("store: command %s was decided twice", cmd.ID)
		}
		_, err := tx.ExecContext(ctx, updateResult, result, cmd.Principal, cmd.ID)
		if err != nil {
			return translate(err)
		}
	}
	if err := s.putEvidence(ctx, tx, c.Evidence); err != nil {
		return err
	}
	return putAudit(ctx, tx, c.Audit)
}

// putSessions writes ended rows first: a node's new session may only follow
// the end of its former one.
func putSessions(ctx context.Context, tx writeTx, sessions []lease.Session) error {
	sorted := slices.Clone(sessions)
	slices.SortStableFunc(sorted, func(a, b lease.Session) int { return rank(a) - rank(b) })
	for _, session := range sorted {
		if _, err := tx.ExecContext(ctx, putSession, sessionValues(session)...); err != nil {
			return translate(err)
		}
	}
	return nil
}

func rank(s lease.Session) int {
	if s.End != lease.SessionOpen {
		return 0
	}
	return 1
}

// putLeases writes ended rows first, for the same reason.
func putLeases(ctx context.Context, tx writeTx, leases []lease.Lease) error {
	if len(leases) == 0 {
		return nil
	}
	for _, ended := range []bool{true, false} {
		for _, l := range leases {
			if (l.State == lease.Ended) != ended {
				continue
			}
			done, err := tx.ExecContext(ctx, putLease, leaseValues(l)...)
			if err != nil {
				return translate(err)
			}
			if n, err := done.RowsAffected(); err != nil || n != 1 { // the id is of another lease
				return fmt.Errorf("%w: lease id %s is taken", store.ErrConflict, l.ID)
			}
		}
	}
	return nil
}

func putAudit(ctx context.Context, tx writeTx, lines []lease.Audit) error {
	for _, a := range lines {
		_, err := tx.ExecContext(ctx, insertAudit,
			micros(a.At), a.Actor, a.Action, a.Scope, a.Lease, a.Node, int64(a.Epoch), a.Reason)
		if err != nil {
			return translate(err)
		}
	}
	return nil
}

// querier is a transaction or the read pool.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}
