package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// inRead runs f on one snapshot.
func (s *Store) inRead(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return translate(err)
	}
	defer tx.Rollback()
	return f(tx)
}

// Set implements store.Store.
func (s *Store) Set(ctx context.Context, session string, known []string) (store.Set, error) {
	var set store.Set
	err := s.inRead(ctx, func(tx *sql.Tx) error {
		found, err := scanSession(tx.QueryRowContext(ctx, sessionByID, session))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return translate(err)
		}
		_, generation, err := standing(ctx, tx)
		if err != nil {
			return err
		}
		set.Session, set.Version = found, found.Version(generation)
		rows, err := tx.QueryContext(ctx, `SELECT `+leaseColumns+` FROM lease l WHERE l.session = ? AND l.state <> 'ended' ORDER BY l.id`, session)
		if set.Leases, err = collect(rows, err, scanLease); err != nil {
			return err
		}
		if set.Ended, err = tombstones(ctx, tx, session, known); err != nil {
			return err
		}
		rows, err = tx.QueryContext(ctx, `SELECT `+leaseColumns+` FROM lease l WHERE l.node = ? AND l.unsettled ORDER BY l.id`, found.Node)
		if set.Owed, err = collect(rows, err, scanLease); err != nil {
			return err
		}
		set.Now = s.now()
		return nil
	})
	return set, err
}

// tombstones returns those of the known leases that have ended, with the
// scope's present holder.
func tombstones(ctx context.Context, q querier, session string, known []string) ([]store.EndedLease, error) {
	var out []store.EndedLease
	for _, id := range known {
		l, err := scanLease(q.QueryRowContext(ctx, `SELECT `+leaseColumns+` FROM lease l WHERE l.id = ? AND l.session = ? AND l.state = 'ended'`, id, session))
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, translate(err)
		}
		ended := store.EndedLease{Lease: l}
		key := l.Scope.ID()
		next, err := scanLease(q.QueryRowContext(ctx, `SELECT `+leaseColumns+` FROM lease l WHERE l.scope_id = ? AND l.state <> 'ended' LIMIT 1`, key[:]))
		if err == nil {
			ended.Successor = &next
		} else if !errors.Is(err, sql.ErrNoRows) {
			return nil, translate(err)
		}
		out = append(out, ended)
	}
	return out, nil
}

// due finds work for the sweeper by indexes: sessions first, since they are
// few, then the leases with a time of their own. A deadline that lies further
// ahead than it can have been set was set by a clock since stepped back.
const due = `
	SELECT l.scope FROM session s JOIN lease l ON l.session = s.id AND l.state <> 'ended'
	 WHERE s.ended <> '' OR s.expires_at <= :now - :grace OR s.expires_at > :now + :far
	UNION SELECT scope FROM lease WHERE state = 'granted' AND (claim_by <= :now OR claim_by > :now + :far)
	UNION SELECT l.scope FROM lease l LEFT JOIN session s ON s.id = l.session WHERE l.state = 'draining'
	  AND (l.drain_until <= :now OR l.drain_until > :now + :far
	       OR (s.applied_generation, s.applied_version) >= (l.drain_generation, l.drain_version))
	UNION SELECT scope FROM lease WHERE state = 'live' AND max_until > 0 AND max_until <= :now
	LIMIT :limit`

// Due implements store.Store.
func (s *Store) Due(ctx context.Context, grace time.Duration, limit int) ([]scope.Scope, error) {
	rows, err := s.read.QueryContext(ctx, due,
		sql.Named("now", micros(s.now())), sql.Named("grace", grace.Microseconds()),
		sql.Named("far", s.cfg.MaxTTL.Microseconds()), sql.Named("limit", limit))
	return collect(rows, err, scanScope)
}

func scanScope(r row) (scope.Scope, error) {
	var name string
	if err := r.Scan(&name); err != nil {
		return scope.Scope{}, err
	}
	return scope.Parse(name)
}

// Leases implements store.Store, newest first.
func (s *Store) Leases(ctx context.Context, f store.LeaseFilter) ([]lease.Lease, error) {
	query := `SELECT ` + leaseColumns + ` FROM lease l`
	var where []string
	var args []any
	add := func(condition string, arg any) { where, args = append(where, condition), append(args, arg) }
	if !f.Ended {
		where = append(where, `l.state <> 'ended'`)
	}
	if !f.Scope.IsZero() {
		id := f.Scope.ID()
		add(`l.scope_id = ?`, id[:])
	}
	if f.Tenant != "" {
		add(`l.scope LIKE ? ESCAPE '\'`, f.Tenant+"/%")
	}
	if f.Node != "" {
		add(`l.node = ?`, f.Node)
	}
	if len(where) > 0 {
		query += ` WHERE ` + strings.Join(where, ` AND `)
	}
	query += ` ORDER BY l.id DESC LIMIT ?`
	limit := f.Limit
	if limit <= 0 {
		limit = -1
	}
	rows, err := s.read.QueryContext(ctx, query, append(args, limit)...)
	return collect(rows, err, scanLease)
}

// Scope implements store.Store. A scope that nobody asked for yet is open with
// epoch 0.
func (s *Store) Scope(ctx context.Context, sc scope.Scope) (store.ScopeView, error) {
	v := store.ScopeView{Record: lease.Record{Scope: sc, State: lease.Open}}
	err := s.inRead(ctx, func(tx *sql.Tx) error {
		id := sc.ID()
		rec, err := scanRecord(tx.QueryRowContext(ctx, selectScope, id[:]))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return translate(err)
		}
		v.Record = rec
		held, err := loadLeases(ctx, tx, []scope.Scope{sc})
		if err != nil {
			return err
		}
		v.Leases = held[id]
		v.Sessions, err = lockSessions(ctx, tx, store.Batch{}, held)
		return err
	})
	return v, err
}

// Sessions implements store.Store: those that have not ended, by node.
func (s *Store) Sessions(ctx context.Context) ([]lease.Session, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT `+sessionColumns+` FROM session s WHERE s.ended = '' ORDER BY s.node`)
	return collect(rows, err, scanSession)
}

// Audit implements store.Store, newest first.
func (s *Store) Audit(ctx context.Context, sc scope.Scope, limit int) ([]lease.Audit, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT at, actor, action, scope, lease, node, epoch, reason FROM audit
		WHERE scope = ? ORDER BY seq DESC LIMIT ?`, sc.String(), limit)
	return collect(rows, err, scanAudit)
}

func scanAudit(r row) (lease.Audit, error) {
	var a lease.Audit
	var at, e int64
	err := r.Scan(&at, &a.Actor, &a.Action, &a.Scope, &a.Lease, &a.Node, &e, &a.Reason)
	a.At, a.Epoch = fromMicros(at), epoch.Epoch(e)
	return a, err
}
