package guard

import (
	"encoding/json"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
)

// bucket is where the marks are in a file.
const bucket = "forgeyard-guard"

// lockWait bounds the wait for another process that has the file.
const lockWait = time.Second

// File keeps marks in a bbolt file; Store returns after its fsync.
type File struct{ db *bbolt.DB }

var _ Marks = (*File)(nil)

// Open opens or creates the file. It fails when another process has it, and on
// a damaged one: a guard that forgot its marks would admit a stale holder, so
// that is for a person to decide.
func Open(path string) (*File, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockWait})
	if err != nil {
		return nil, fmt.Errorf("open marks %s: %w", path, err)
	}
	return &File{db: db}, nil
}

// Load implements Marks.
func (f *File) Load(k Key) (m Mark, err error) {
	err = f.db.View(func(tx *bbolt.Tx) error {
		m, err = load(tx, k)
		return err
	})
	return m, err
}

// Store implements Marks.
func (f *File) Store(k Key, m Mark) error {
	return f.db.Update(func(tx *bbolt.Tx) error { return store(tx, k, m) })
}

// Close closes the file.
func (f *File) Close() error { return f.db.Close() }

// CheckTx compares and raises the mark inside a transaction of the caller's
// own bbolt file, together with the write that it protects. It fails like
// Judge; the caller must roll back then.
func CheckTx(tx *bbolt.Tx, k Key, offered Mark) error {
	seen, err := load(tx, k)
	if err != nil {
		return err
	}
	higher, err := Judge(k, seen, offered)
	if err != nil || !higher {
		return err
	}
	return store(tx, k, offered)
}

func load(tx *bbolt.Tx, k Key) (m Mark, err error) {
	b := tx.Bucket([]byte(bucket))
	if b == nil {
		return m, nil
	}
	text := b.Get([]byte(k.String()))
	if text == nil {
		return m, nil
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("read mark of %s: %w", k, err)
	}
	return m, nil
}

func store(tx *bbolt.Tx, k Key, m Mark) error {
	b, err := tx.CreateBucketIfNotExists([]byte(bucket))
	if err != nil {
		return fmt.Errorf("store mark of %s: %w", k, err)
	}
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("store mark of %s: %w", k, err)
	}
	if err := b.Put([]byte(k.String()), text); err != nil {
		return fmt.Errorf("store mark of %s: %w", k, err)
	}
	return nil
}
