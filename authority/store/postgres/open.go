package postgres

import (
	"context"
	"crypto/rand"
	"embed"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/oklog/ulid/v2"
	"github.com/pressly/goose/v3"

	"github.com/forgeyard/concurrency/authority/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// callTimeout bounds one transaction from outside, whatever its caller's
// context says: a COMMIT is never cancelled by a caller (DESIGN 5.3).
const callTimeout = 10 * time.Second

// Config says where the database is.
type Config struct {
	URL      string        // as libpq understands it
	MaxConns int           // 0: the pool's default
	MaxTTL   time.Duration // longest ttl of a session; bounds what Due believes of a deadline
}

// Store is the Postgres store.
type Store struct {
	cfg  Config
	pool *pgxpool.Pool
}

var _ store.Store = (*Store)(nil)

// Open connects and checks the schema, which Migrate must have made. It fails
// with store.ErrSchema or store.ErrUnavailable.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	pc, err := poolConfig(cfg)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("open postgres store: %w: %w", store.ErrUnavailable, err)
	}
	s := &Store{cfg: cfg, pool: pool}
	if err := s.checkSchema(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("open postgres store: %w", err)
	}
	return s, nil
}

func poolConfig(cfg Config) (*pgxpool.Config, error) {
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("postgres url: %w", err) // pgx leaves the password out
	}
	if cfg.MaxConns > 0 {
		pc.MaxConns = int32(cfg.MaxConns)
	}
	// Unnamed statements with cached descriptions: nothing stays in the server's
	// session, as a pooler in transaction mode demands.
	pc.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	pc.ConnConfig.OnNotice = func(c *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			c.CustomData()[warningKey] = n.Message
		}
	}
	return pc, nil
}

// warningKey is where a connection keeps the last warning of the server.
const warningKey = "warning"

func sources() (fs.FS, error) { return fs.Sub(migrations, "migrations") }

// Migrate brings the schema up to date, forward only. It is safe to run from
// several places at once only one after the other: run it as its own step.
func Migrate(ctx context.Context, url string) error {
	pc, err := poolConfig(Config{URL: url})
	if err != nil {
		return err
	}
	db := stdlib.OpenDB(*pc.ConnConfig)
	defer db.Close()
	files, err := sources()
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, files)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	id, err := ulid.New(ulid.Now(), rand.Reader)
	if err != nil {
		return fmt.Errorf("mint authority id: %w", err)
	}
	if _, err := db.ExecContext(ctx, `INSERT INTO authority (id, generation) VALUES ($1, 0) ON CONFLICT DO NOTHING`, id.String()); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// checkSchema refuses a schema that is older than this program. A newer one is
// accepted: migrations are compatible with the version before them, so that
// replicas can be replaced one by one.
func (s *Store) checkSchema(ctx context.Context) error {
	files, err := sources()
	if err != nil {
		return err
	}
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return err
	}
	var has int
	err = s.pool.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`).Scan(&has)
	if code(err) == undefinedTable {
		has, err = 0, nil
	}
	if err != nil {
		return translate(err)
	}
	if has < len(entries) {
		return fmt.Errorf("%w: the database has %d, this program needs %d: run `forgeyard-authority migrate`", store.ErrSchema, has, len(entries))
	}
	return nil
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.pool.Close()
	return nil
}

// AuthorityID implements store.Store.
func (s *Store) AuthorityID(ctx context.Context) (string, error) {
	var id string
	err := s.pool.QueryRow(ctx, `SELECT id FROM authority`).Scan(&id)
	return id, translate(err)
}
