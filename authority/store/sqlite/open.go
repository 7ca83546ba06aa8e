package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/pressly/goose/v3"
	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // the driver named "sqlite"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/clock"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Config says where the file is and whose clock the store shows.
type Config struct {
	Path       string        // of the database file
	MemoryPath string        // of the outside memory: another directory, best another disk
	Clock      clock.Clock   // its wall clock is the store's clock
	MaxTTL     time.Duration // longest ttl of a session; bounds what Due believes of a deadline
}

// Validate checks that the outside memory lies outside.
func (c Config) Validate() error {
	switch {
	case c.Path == "":
		return errors.New("path: must name the database file")
	case c.MemoryPath == "":
		return errors.New("memory_path: must name the outside memory")
	case filepath.Dir(c.Path) == filepath.Dir(c.MemoryPath):
		return fmt.Errorf("memory_path %s: must lie in another directory than path %s, so that one restore does not take both back", c.MemoryPath, c.Path)
	case c.Clock == nil || c.MaxTTL <= 0:
		return errors.New("clock and max ttl: must be set")
	}
	return nil
}

// Store is the embedded store.
type Store struct {
	cfg    Config
	lock   *os.File
	write  *sql.DB // one connection
	read   *sql.DB
	memory memory
	// prepared are the statements of the writing connection.
	prepared map[string]*sql.Stmt

	remembered atomic.Pointer[memoryRecord] // what the outside memory was last told
}

var _ store.Store = (*Store)(nil)

// Open opens or creates the file and brings its schema up to date. It fails
// with store.ErrLocked when another process has it.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open embedded store: %w", err)
	}
	lock, err := lockFile(cfg.Path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("open embedded store %s: %w", cfg.Path, err)
	}
	s := &Store{cfg: cfg, lock: lock, memory: memory{path: cfg.MemoryPath}}
	if err := s.open(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("open embedded store %s: %w", cfg.Path, err)
	}
	return s, nil
}

func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: stop it first", store.ErrLocked)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

func (s *Store) open(ctx context.Context) error {
	var err error
	if s.write, err = connect(s.cfg.Path, "_txlock=immediate"); err != nil {
		return err
	}
	s.write.SetMaxOpenConns(1)
	if err := migrate(ctx, s.write); err != nil {
		return err
	}
	if err := os.Chmod(s.cfg.Path, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	id, err := ulid.New(ulid.Timestamp(s.cfg.Clock.Now()), rand.Reader)
	if err != nil {
		return fmt.Errorf("mint authority id: %w", err)
	}
	if _, err := s.write.ExecContext(ctx, `INSERT OR IGNORE INTO authority (one, id, generation) VALUES (1, ?, 0)`, id.String()); err != nil {
		return translate(err)
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if s.read, err = connect(s.cfg.Path, "_txlock=deferred", "_pragma=query_only(1)"); err != nil {
		return err
	}
	s.read.SetMaxOpenConns(4)
	return nil
}

func connect(path string, params ...string) (*sql.DB, error) {
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)" +
		"&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)"
	for _, p := range params {
		dsn += "&" + p
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return db, nil
}

func migrate(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	has, err := p.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	sources := p.ListSources()
	if newest := sources[len(sources)-1].Version; has > newest {
		return fmt.Errorf("%w: the file has %d, this program knows %d: use a newer program", store.ErrSchema, has, newest)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// Close implements store.Store.
func (s *Store) Close() error {
	var errs []error
	for _, db := range []*sql.DB{s.read, s.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// AuthorityID implements store.Store.
func (s *Store) AuthorityID(ctx context.Context) (string, error) {
	var id string
	err := s.read.QueryRowContext(ctx, `SELECT id FROM authority`).Scan(&id)
	return id, translate(err)
}

// now is the store's clock at the resolution of its columns.
func (s *Store) now() time.Time { return s.cfg.Clock.Now().UTC().Truncate(time.Microsecond) }
