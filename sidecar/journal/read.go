package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sort"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"github.com/forgeyard/concurrency/shared/effect"
)

// kept is what a file has.
type kept struct {
	id      string
	before  bool // the id is new, the file is not
	effects []effect.Effect
}

// readFile opens the file and reads what it has; a new one gets a fresh
// identity. bbolt panics or faults on damage; on this goroutine both are caught (FC-56).
func readFile(path string, fresh func() string) (db *bbolt.DB, k kept, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if db != nil {
				db.Close()
			}
			db, k, err = nil, kept{}, fmt.Errorf("damaged: %v", p)
		}
	}()
	// The freelist is in the file: without it bbolt walks all pages when it opens
	// it, on a goroutine of its own, where nothing catches what a damaged page
	// makes of that.
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return nil, kept{}, err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		if info, err := os.Stat(path); err != nil || info.Size() < tx.Size() {
			return fmt.Errorf("damaged: the file is shorter than its own account of it")
		}
		if k.id, k.before, err = identity(tx, path, fresh); err != nil {
			return err
		}
		b, err := tx.CreateBucketIfNotExists([]byte(bucketEffects))
		if err != nil {
			return err
		}
		return b.ForEach(func(key, v []byte) error {
			var e effect.Effect
			if err := json.Unmarshal(v, &e); err != nil {
				return fmt.Errorf("damaged: effect %q: %w", key, err)
			}
			k.effects = append(k.effects, e)
			return nil
		})
	})
	if err != nil {
		db.Close()
		return nil, kept{}, err
	}
	return db, k, nil
}

// damaged tells what is wrong with the file from what is wrong around it: a
// lock, a right, a full or broken disk.
func damaged(err error) bool {
	var errno syscall.Errno
	return !errors.Is(err, bbolterrors.ErrTimeout) && !errors.As(err, &errno)
}

// Counts returns the open and the unknown effects of a lease.
func (j *Journal) Counts(lease string) (open, unknown int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.index.counts(lease)
}

// WaitSettled returns when no effect of the lease is open, or with ctx's error.
func (j *Journal) WaitSettled(ctx context.Context, lease string) error {
	done := make(chan struct{})
	j.mu.Lock()
	if open, _ := j.index.counts(lease); open == 0 {
		j.mu.Unlock()
		return nil
	}
	j.index.waiters[lease] = append(j.index.waiters[lease], done)
	j.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Find returns the latest execution of a caller's key, refused attempts not
// counted.
func (j *Journal) Find(scope, provider, key string) (effect.Effect, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, ok := j.index.byID[j.index.byKey[callKey{scope, provider, key}]]
	return e, ok
}

// Get returns one effect.
func (j *Journal) Get(id string) (effect.Effect, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, ok := j.index.byID[id]
	return e, ok
}

// Filter selects effects; zero fields select everything.
type Filter struct {
	Scope string
	State effect.State
	Limit int
}

// List returns effects, newest first.
func (j *Journal) List(f Filter) []effect.Effect {
	j.mu.Lock()
	var out []effect.Effect
	for _, e := range j.index.byID {
		if (f.Scope == "" || e.Scope.String() == f.Scope) && (f.State == "" || e.State == f.State) {
			out = append(out, e)
		}
	}
	j.mu.Unlock()
	sort.Slice(out, func(a, b int) bool { // ids of one millisecond have no order
		if !out[a].StartedAt.Equal(out[b].StartedAt) {
			return out[a].StartedAt.After(out[b].StartedAt)
		}
		return out[a].ID > out[b].ID
	})
	if f.Limit > 0 && len(out) > f.Limit {
		out = out[:f.Limit]
	}
	return out
}
