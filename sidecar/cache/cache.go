package cache

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
)

// The buckets and the key of the one session.
const (
	bucketState    = "state"
	bucketHolds    = "holds"
	bucketReceipts = "receipts"
	bucketCovers   = "covers"
	keySession     = "session"
)

// Config says where the files are.
type Config struct {
	Dir string    // of the data; exists, mode 0700
	Now time.Time // names a file that is set aside
}

// Cache is the open file.
type Cache struct {
	db  *bbolt.DB
	dir string
}

// Damage says what Open had to set aside; empty when nothing.
type Damage struct {
	SetAside string // path of the damaged file
	Cause    error
}

// Open opens or creates the cache. A file that cannot be read is set aside and
// a fresh one begun, with the receipts of the second file.
func Open(cfg Config) (*Cache, Damage, error) {
	path := filepath.Join(cfg.Dir, "cache.db")
	c := &Cache{dir: cfg.Dir}
	var damage Damage
	db, err := openChecked(path)
	if err != nil {
		damage = Damage{SetAside: fmt.Sprintf("%s.damaged-%d", path, cfg.Now.UnixNano()), Cause: err}
		if err := os.Rename(path, damage.SetAside); err != nil {
			return nil, damage, fmt.Errorf("set aside damaged cache: %w", errors.Join(err, damage.Cause))
		}
		if db, err = openChecked(path); err != nil {
			return nil, damage, fmt.Errorf("open cache: %w", err)
		}
	}
	c.db = db
	if err := c.mergeReceipts(); err != nil {
		db.Close()
		return nil, damage, fmt.Errorf("open cache: %w", err)
	}
	return c, damage, nil
}

// openChecked opens the file and reads every key: bbolt panics on some kinds
// of damage, at the first touch or later, and faults on a file that is shorter
// than its own account of it (FC-56). Everything runs on this goroutine, so
// that both are caught.
func openChecked(path string) (db *bbolt.DB, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if db != nil {
				db.Close()
			}
			db, err = nil, fmt.Errorf("damaged: %v", p)
		}
	}()
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return nil, err
	}
	for _, step := range []func(*bbolt.DB) error{whole, readAll, prepare} {
		if err := step(db); err != nil {
			db.Close()
			return nil, err
		}
	}
	return db, nil
}

// whole compares the file's size with what its own meta page says.
func whole(db *bbolt.DB) error {
	return db.View(func(tx *bbolt.Tx) error {
		info, err := os.Stat(db.Path())
		if err != nil {
			return err
		}
		if info.Size() < tx.Size() {
			return fmt.Errorf("damaged: %d bytes of %d are left", info.Size(), tx.Size())
		}
		return nil
	})
}

func readAll(db *bbolt.DB) error {
	return db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error {
				if !json.Valid(v) {
					return fmt.Errorf("damaged: the value of %q is no JSON", k)
				}
				return nil
			})
		})
	})
}

func prepare(db *bbolt.DB) error {
	return db.Update(func(tx *bbolt.Tx) error {
		if err := adoptHolds(tx); err != nil {
			return err
		}
		for _, name := range []string{bucketState, bucketHolds, bucketReceipts, bucketCovers} {
			if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Close closes the file.
func (c *Cache) Close() error { return c.db.Close() }

// Session returns the last session; false when there is none.
func (c *Cache) Session() (Session, bool, error) {
	var s Session
	found, err := c.get(bucketState, keySession, &s)
	return s, found, err
}

// PutSession stores the session. It is the durable write that every heartbeat
// waits for: a node with a stalled disk loses ownership by itself.
func (c *Cache) PutSession(s Session) error { return c.put(bucketState, keySession, s) }

// Reset forgets session and holds: they belong to a session that is over. The
// covers stay.
func (c *Cache) Reset() error {
	return c.db.Update(func(tx *bbolt.Tx) error {
		if err := tx.Bucket([]byte(bucketState)).Delete([]byte(keySession)); err != nil {
			return err
		}
		if err := tx.DeleteBucket([]byte(bucketHolds)); err != nil {
			return err
		}
		_, err := tx.CreateBucket([]byte(bucketHolds))
		return err
	})
}

// PutHold stores one hold under its lease.
func (c *Cache) PutHold(h Hold) error { return c.put(bucketHolds, h.Lease, h) }

// DeleteHold forgets one hold.
func (c *Cache) DeleteHold(lease string) error {
	return c.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte(bucketHolds)).Delete([]byte(lease)) })
}

// Holds returns every hold.
func (c *Cache) Holds() ([]Hold, error) {
	var out []Hold
	err := c.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketHolds)).ForEach(func(_, v []byte) error {
			var h Hold
			if err := json.Unmarshal(v, &h); err != nil {
				return fmt.Errorf("read hold: %w", err)
			}
			out = append(out, h)
			return nil
		})
	})
	return out, err
}

func (c *Cache) get(bucket, key string, into any) (bool, error) {
	found := false
	err := c.db.View(func(tx *bbolt.Tx) error {
		text := tx.Bucket([]byte(bucket)).Get([]byte(key))
		if text == nil {
			return nil
		}
		found = true
		return json.Unmarshal(text, into)
	})
	if err != nil {
		return false, fmt.Errorf("read %s: %w", key, err)
	}
	return found, nil
}

func (c *Cache) put(bucket, key string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("store %s: %w", key, err)
	}
	err = c.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte(bucket)).Put([]byte(key), text) })
	if err != nil {
		return fmt.Errorf("store in bucket %s: %w", bucket, err)
	}
	return nil
}
