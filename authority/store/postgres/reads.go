package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// inSnapshot runs f on one snapshot.
func (s *Store) inSnapshot(ctx context.Context, f func(pgx.Tx) error) error {
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return translate(err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	return f(tx)
}

// Set implements store.Store.
func (s *Store) Set(ctx context.Context, session string, known []string) (store.Set, error) {
	var set store.Set
	err := s.inSnapshot(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT `+sessionColumns+` FROM session s WHERE s.id = $1`, session)
		found, err := collect(rows, err, scanSession)
		if err != nil || len(found) == 0 {
			return err
		}
		set.Session = found[0]
		rows, err = tx.Query(ctx, `SELECT `+leaseColumns+` FROM lease l WHERE l.session = $1 AND l.state <> 'ended' ORDER BY l.id`, session)
		if set.Leases, err = collect(rows, err, scanLease); err != nil {
			return err
		}
		if set.Ended, err = tombstones(ctx, tx, session, known); err != nil {
			return err
		}
		rows, err = tx.Query(ctx, `SELECT `+leaseColumns+` FROM lease l WHERE l.node = $1 AND l.unsettled ORDER BY l.id`, set.Session.Node)
		if set.Owed, err = collect(rows, err, scanLease); err != nil {
			return err
		}
		rows, err = tx.Query(ctx, standingQuery)
		st, err := collect(rows, err, scanStanding)
		if err != nil || len(st) == 0 {
			return errors.Join(err, noAuthority(len(st)))
		}
		set.Version, set.Now = set.Session.Version(st[0].Generation), st[0].Now
		return nil
	})
	return set, err
}

func noAuthority(rows int) error {
	if rows == 0 {
		return fmt.Errorf("%w: the authority's row is missing", store.ErrSchema)
	}
	return nil
}

// tombstones returns those of the known leases that have ended, with the
// scope's present holder.
func tombstones(ctx context.Context, tx pgx.Tx, session string, known []string) ([]store.EndedLease, error) {
	if len(known) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, `SELECT `+leaseColumns+` FROM lease l WHERE l.id = ANY($1::text[]) AND l.session = $2 AND l.state = 'ended'`, known, session)
	ended, err := collect(rows, err, scanLease)
	if err != nil || len(ended) == 0 {
		return nil, err
	}
	ids := column(ended, func(l lease.Lease) []byte { id := l.Scope.ID(); return id[:] })
	rows, err = tx.Query(ctx, `SELECT `+leaseColumns+` FROM lease l WHERE l.scope_id = ANY($1::bytea[]) AND l.state <> 'ended' ORDER BY l.epoch`, ids)
	present, err := collect(rows, err, scanLease)
	if err != nil {
		return nil, err
	}
	out := make([]store.EndedLease, len(ended))
	for i, l := range ended {
		out[i].Lease = l
		for _, p := range present {
			if p.Scope == l.Scope {
				out[i].Successor = &p
				break
			}
		}
	}
	return out, nil
}

// due finds work for the sweeper by indexes: sessions first, since they are
// few, then the leases with a time of their own. A deadline that lies further
// ahead than it can have been set was set by a clock since stepped back.
const due = `
	SELECT l.scope FROM session s JOIN lease l ON l.session = s.id AND l.state <> 'ended'
	 WHERE s.ended <> '' OR s.expires_at <= clock_timestamp() - $1::interval OR s.expires_at > clock_timestamp() + $2::interval
	UNION SELECT scope FROM lease WHERE state = 'granted' AND (claim_by <= clock_timestamp() OR claim_by > clock_timestamp() + $2::interval)
	UNION SELECT l.scope FROM lease l LEFT JOIN session s ON s.id = l.session WHERE l.state = 'draining'
	  AND (l.drain_until <= clock_timestamp() OR l.drain_until > clock_timestamp() + $2::interval
	       OR (s.applied_generation, s.applied_version) >= (l.drain_generation, l.drain_version))
	UNION SELECT scope FROM lease WHERE state = 'live' AND max_until <= clock_timestamp()
	LIMIT $3`

// Due implements store.Store.
func (s *Store) Due(ctx context.Context, grace time.Duration, limit int) ([]scope.Scope, error) {
	rows, err := s.pool.Query(ctx, due, grace, s.cfg.MaxTTL, limit)
	return collect(rows, err, scanScope)
}

// Leases implements store.Store, newest first.
func (s *Store) Leases(ctx context.Context, f store.LeaseFilter) ([]lease.Lease, error) {
	var where []string
	var args []any
	add := func(condition string, arg any) {
		args = append(args, arg)
		where = append(where, fmt.Sprintf(condition, len(args)))
	}
	if !f.Ended {
		where = append(where, `l.state <> 'ended'`)
	}
	if !f.Scope.IsZero() {
		id := f.Scope.ID()
		add(`l.scope_id = $%d`, id[:])
	}
	if f.Tenant != "" {
		add(`l.scope LIKE $%d`, f.Tenant+"/%")
	}
	if f.Node != "" {
		add(`l.node = $%d`, f.Node)
	}
	query := `SELECT ` + leaseColumns + ` FROM lease l`
	if len(where) > 0 {
		query += ` WHERE ` + strings.Join(where, ` AND `)
	}
	query += ` ORDER BY l.id DESC`
	if f.Limit > 0 {
		query += fmt.Sprintf(` LIMIT %d`, f.Limit)
	}
	rows, err := s.pool.Query(ctx, query, args...)
	return collect(rows, err, scanLease)
}

// Scope implements store.Store. A scope that nobody asked for yet is open with
// epoch 0.
func (s *Store) Scope(ctx context.Context, sc scope.Scope) (store.ScopeView, error) {
	v := store.ScopeView{Record: lease.Record{Scope: sc, State: lease.Open}, Sessions: map[string]lease.Session{}}
	err := s.inSnapshot(ctx, func(tx pgx.Tx) error {
		id := sc.ID()
		rows, err := tx.Query(ctx, `SELECT `+recordColumns+` FROM scope WHERE id = $1`, id[:])
		recs, err := collect(rows, err, scanRecord)
		if err != nil || len(recs) == 0 {
			return err
		}
		v.Record = recs[0]
		rows, err = tx.Query(ctx, `SELECT `+leaseColumns+` FROM lease l WHERE l.scope_id = $1 AND l.state <> 'ended' ORDER BY l.epoch`, id[:])
		if v.Leases, err = collect(rows, err, scanLease); err != nil {
			return err
		}
		rows, err = tx.Query(ctx, `SELECT `+sessionColumns+` FROM session s WHERE s.id = ANY($1::text[])`,
			column(v.Leases, func(l lease.Lease) string { return l.Session }))
		sessions, err := collect(rows, err, scanSession)
		for _, s := range sessions {
			v.Sessions[s.ID] = s
		}
		return err
	})
	return v, err
}

// Sessions implements store.Store: those that have not ended, by node.
func (s *Store) Sessions(ctx context.Context) ([]lease.Session, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+sessionColumns+` FROM session s WHERE s.ended = '' ORDER BY s.node`)
	return collect(rows, err, scanSession)
}

// Audit implements store.Store, newest first.
func (s *Store) Audit(ctx context.Context, sc scope.Scope, limit int) ([]lease.Audit, error) {
	rows, err := s.pool.Query(ctx, `SELECT at, actor, action, scope, lease, node, epoch, reason FROM audit
		WHERE scope = $1 ORDER BY seq DESC LIMIT $2`, sc.String(), limit)
	return collect(rows, err, scanAudit)
}
