package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/lease"
)

const nodeColumns = `n.name, n.tenants, n.state, n.reason, n.changed_by, n.changed_at, n.admit_from, n.issuer, n.issued_at, n.expires_at, n.seen_at, n.via`

func scanNode(r row) (store.Node, error) {
	var n store.Node
	var tenants string
	var changed, from, issued, expires, seen int64
	err := r.Scan(&n.Name, &tenants, &n.State, &n.Reason, &n.ChangedBy, &changed, &from, &n.Certificate.Issuer, &issued, &expires, &seen, &n.Via)
	if err != nil {
		return store.Node{}, err
	}
	if err := json.Unmarshal([]byte(tenants), &n.Tenants); err != nil {
		return store.Node{}, fmt.Errorf("node %s: tenants: %w", n.Name, err)
	}
	n.ChangedAt, n.AdmitFrom, n.SeenAt = fromMicros(changed), fromMicros(from), fromMicros(seen)
	n.Certificate.IssuedAt, n.Certificate.ExpiresAt = fromMicros(issued), fromMicros(expires)
	return n, nil
}

// SeeNode implements store.Fleet.
func (s *Store) SeeNode(ctx context.Context, v store.Visit) (store.Node, error) {
	var n store.Node
	c := v.Certificate
	err := s.inWrite(ctx, func(ctx context.Context, tx writeTx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO node (name, tenants, state, reason, changed_by, changed_at, admit_from, issuer, issued_at, expires_at, seen_at, via)
			VALUES (:name, :tenants, 'admitted', '', '', 0, 0, :issuer, :issued, :expires, :now, :via)
			ON CONFLICT (name) DO UPDATE SET tenants = excluded.tenants, issuer = excluded.issuer, issued_at = excluded.issued_at,
			expires_at = excluded.expires_at, seen_at = excluded.seen_at, via = CASE WHEN excluded.via = '' THEN via ELSE excluded.via END,
			state = CASE WHEN :enrolled AND state = 'removed' THEN 'admitted' ELSE state END,
			admit_from = CASE WHEN :enrolled AND state = 'removed' THEN excluded.issued_at ELSE admit_from END`,
			sql.Named("name", v.Node), sql.Named("tenants", toJSON(v.Tenants)), sql.Named("issuer", c.Issuer), sql.Named("issued", micros(c.IssuedAt)),
			sql.Named("expires", micros(c.ExpiresAt)), sql.Named("now", micros(s.now())), sql.Named("enrolled", v.Enrolled),
			sql.Named("via", v.Via))
		if err != nil {
			return translate(err)
		}
		n, err = scanNode(tx.QueryRowContext(ctx, `SELECT `+nodeColumns+` FROM node n WHERE n.name = ?`, v.Node))
		return translate(err)
	})
	return n, err
}

// Node implements store.Fleet.
func (s *Store) Node(ctx context.Context, name string) (store.Node, error) {
	n, err := scanNode(s.read.QueryRowContext(ctx, `SELECT `+nodeColumns+` FROM node n WHERE n.name = ?`, name))
	if errors.Is(err, sql.ErrNoRows) {
		return store.Node{}, nil
	}
	return n, translate(err)
}

// Nodes implements store.Fleet.
func (s *Store) Nodes(ctx context.Context) ([]store.Node, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT `+nodeColumns+` FROM node n ORDER BY n.name`)
	return collect(rows, err, scanNode)
}

// Refused implements store.Fleet.
func (s *Store) Refused(ctx context.Context) ([]string, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT name FROM node WHERE state <> 'admitted' ORDER BY name`)
	return collect(rows, err, func(r row) (name string, err error) { return name, r.Scan(&name) })
}

// ChangeNode implements store.Fleet.
func (s *Store) ChangeNode(ctx context.Context, c store.NodeChange) error {
	return s.inWrite(ctx, func(ctx context.Context, tx writeTx) error {
		query := `UPDATE node SET state = :to, changed_by = :by, reason = :reason, changed_at = :now,
			admit_from = CASE WHEN state = 'removed' AND :to = 'admitted' THEN :now ELSE admit_from END WHERE name = :name AND state = :from`
		if c.From == "" {
			query = `INSERT INTO node (name, tenants, state, reason, changed_by, changed_at, admit_from, issuer, issued_at, expires_at, seen_at)
				VALUES (:name, '[]', :to, :reason, :by, :now, 0, :from, 0, 0, 0) ON CONFLICT (name) DO NOTHING`
		}
		done, err := tx.ExecContext(ctx, query, sql.Named("name", c.Name), sql.Named("from", string(c.From)), sql.Named("to", string(c.To)),
			sql.Named("by", c.By), sql.Named("reason", c.Reason), sql.Named("now", micros(s.now())))
		if err != nil {
			return translate(err)
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return fmt.Errorf("%w: node %s is not %q any more", store.ErrConflict, c.Name, c.From)
		}
		return s.record(ctx, tx, lease.Audit{Actor: c.By, Action: "node-" + string(c.To), Node: c.Name, Reason: c.Reason})
	})
}

// PutJoinToken implements store.Fleet.
func (s *Store) PutJoinToken(ctx context.Context, t store.JoinToken) error {
	return s.inWrite(ctx, func(ctx context.Context, tx writeTx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO join_token (hash, tenants, uses, uses_left, expires_at, made_by, made_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			t.Hash[:], toJSON(t.Tenants), t.UsesLeft, t.UsesLeft, micros(t.ExpiresAt), t.MadeBy, micros(s.now()))
		return translate(err)
	})
}

const tokenColumns = `hash, tenants, uses, uses_left, expires_at, made_by, made_at`

func scanToken(r row) (store.JoinToken, error) {
	var t store.JoinToken
	var hash []byte
	var tenants string
	var expires, made int64
	if err := r.Scan(&hash, &tenants, &t.Uses, &t.UsesLeft, &expires, &t.MadeBy, &made); err != nil {
		return store.JoinToken{}, err
	}
	if err := json.Unmarshal([]byte(tenants), &t.Tenants); err != nil {
		return store.JoinToken{}, fmt.Errorf("join token: tenants: %w", err)
	}
	copy(t.Hash[:], hash)
	t.ExpiresAt, t.MadeAt = fromMicros(expires), fromMicros(made)
	return t, nil
}

// SpendJoinToken implements store.Fleet.
func (s *Store) SpendJoinToken(ctx context.Context, hash [32]byte) (store.JoinToken, error) {
	var t store.JoinToken
	err := s.inWrite(ctx, func(ctx context.Context, tx writeTx) error {
		var err error
		t, err = scanToken(tx.QueryRowContext(ctx, `UPDATE join_token SET uses_left = uses_left - 1
			WHERE hash = ? AND uses_left > 0 AND expires_at > ? RETURNING `+tokenColumns, hash[:], micros(s.now())))
		if errors.Is(err, sql.ErrNoRows) {
			return store.ErrTokenRefused
		}
		return translate(err)
	})
	return t, err
}

// JoinTokens implements store.Fleet.
func (s *Store) JoinTokens(ctx context.Context) ([]store.JoinToken, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT `+tokenColumns+` FROM join_token ORDER BY made_at DESC, hash`)
	return collect(rows, err, scanToken)
}

// DropJoinToken implements store.Fleet.
func (s *Store) DropJoinToken(ctx context.Context, hash [32]byte) error {
	return s.inWrite(ctx, func(ctx context.Context, tx writeTx) error {
		done, err := tx.ExecContext(ctx, `DELETE FROM join_token WHERE hash = ?`, hash[:])
		if err != nil {
			return translate(err)
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return store.ErrTokenRefused
		}
		return nil
	})
}

// Record implements store.Fleet.
func (s *Store) Record(ctx context.Context, a lease.Audit) error {
	return s.inWrite(ctx, func(ctx context.Context, tx writeTx) error { return s.record(ctx, tx, a) })
}

func (s *Store) record(ctx context.Context, tx writeTx, a lease.Audit) error {
	a.At = s.now()
	return putAudit(ctx, tx, []lease.Audit{a})
}
