package sqlite

import (
	"context"
	"database/sql"
	"fmt"
)

// The statements of every transaction. They are prepared once, on the one
// writing connection: parsing them anew for each command costs more than
// running them.
const (
	insertCommand  = `INSERT INTO command (principal, id, digest, at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`
	selectCommand  = `SELECT digest, result FROM command WHERE principal = ? AND id = ?`
	updateResult   = `UPDATE command SET result = ? WHERE principal = ? AND id = ?`
	selectScope    = `SELECT ` + recordColumns + ` FROM scope WHERE id = ?`
	insertScope    = `INSERT INTO scope (id, name, epoch, state, reason) VALUES (?, ?, 0, 'open', '')`
	updateScope    = `UPDATE scope SET epoch = ?, state = ?, reason = ?, forgotten = ? WHERE id = ?`
	leasesOfScope  = `SELECT ` + leaseColumns + ` FROM lease l WHERE l.scope_id = ? AND l.state <> 'ended' ORDER BY l.epoch`
	sessionByID    = `SELECT ` + sessionColumns + ` FROM session s WHERE s.id = ?`
	sessionByNode  = `SELECT ` + sessionColumns + ` FROM session s WHERE s.node = ? AND s.ended = ''`
	renewSession   = `UPDATE session SET expires_at = ?, applied_generation = ?, applied_version = ? WHERE id = ?`
	insertAudit    = `INSERT INTO audit (at, actor, action, scope, lease, node, epoch, reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	selectStanding = `SELECT id, incarnation, generation FROM authority`
)

// prepare makes the statements of the writing connection.
func (s *Store) prepare(ctx context.Context) error {
	s.prepared = map[string]*sql.Stmt{}
	for _, query := range []string{
		insertCommand, selectCommand, updateResult, selectScope, insertScope, updateScope, leasesOfScope, sessionByID, sessionByNode,
		renewSession, insertAudit, selectStanding, putSession, putLease,
	} {
		stmt, err := s.write.PrepareContext(ctx, query)
		if err != nil {
			return fmt.Errorf("prepare: %w", translate(err))
		}
		s.prepared[query] = stmt
	}
	return nil
}

// writeTx is the write transaction; it uses the prepared statements.
type writeTx struct {
	*sql.Tx
	prepared map[string]*sql.Stmt
}

// QueryRowContext implements querier.
func (w writeTx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if stmt, ok := w.prepared[query]; ok {
		return w.StmtContext(ctx, stmt).QueryRowContext(ctx, args...)
	}
	return w.Tx.QueryRowContext(ctx, query, args...)
}

// QueryContext implements querier.
func (w writeTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if stmt, ok := w.prepared[query]; ok {
		return w.StmtContext(ctx, stmt).QueryContext(ctx, args...)
	}
	return w.Tx.QueryContext(ctx, query, args...)
}

// ExecContext runs a statement without rows.
func (w writeTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if stmt, ok := w.prepared[query]; ok {
		return w.StmtContext(ctx, stmt).ExecContext(ctx, args...)
	}
	return w.Tx.ExecContext(ctx, query, args...)
}
