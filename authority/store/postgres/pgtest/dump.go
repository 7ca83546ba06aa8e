package pgtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// Dump returns what a database holds now, as pg_dump writes it.
func (s *Server) Dump(ctx context.Context, database string) ([]byte, error) {
	text, err := s.command(ctx, append([]string{"pg_dump"}, s.local(database)...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("pgtest: pg_dump: %w", err)
	}
	return text, nil
}

// Restore makes a database of a dump.
func (s *Server) Restore(ctx context.Context, database string, dump []byte) error {
	file := filepath.Join(s.Dir, database+".sql")
	if err := os.WriteFile(file, dump, 0o644); err != nil {
		return fmt.Errorf("pgtest: restore: %w", err)
	}
	if err := s.run(ctx, append([]string{"createdb"}, s.local(database)...)...); err != nil {
		return fmt.Errorf("pgtest: restore: %w", err)
	}
	if err := s.run(ctx, append([]string{"psql", "-q", "-v", "ON_ERROR_STOP=1", "-f", file}, s.local(database)...)...); err != nil {
		return fmt.Errorf("pgtest: restore: %w", err)
	}
	return nil
}

// local are the arguments that lead a client program to a database.
func (s *Server) local(database string) []string {
	return []string{"-h", s.Dir, "-p", strconv.Itoa(s.Port), "-U", "postgres", database}
}

// CaughtUp returns when this standby has replayed what primary has written.
func (s *Server) CaughtUp(ctx context.Context, primary *Server) error {
	ask := func(of *Server, query string) (string, error) {
		conn, err := pgx.Connect(ctx, of.URL("postgres"))
		if err != nil {
			return "", err
		}
		defer conn.Close(ctx)
		var text string
		return text, conn.QueryRow(ctx, query).Scan(&text)
	}
	at, err := ask(primary, `SELECT pg_current_wal_lsn()::text`)
	if err != nil {
		return fmt.Errorf("pgtest: position of the primary: %w", err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		behind, err := ask(s, `SELECT (pg_last_wal_replay_lsn() < '`+at+`')::text`)
		if err == nil && behind == "false" {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("pgtest: the standby does not catch up: %w", ctx.Err())
		}
	}
}
