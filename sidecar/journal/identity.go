package journal

import (
	"crypto/rand"
	"fmt"
	"os"
	"syscall"

	"github.com/oklog/ulid/v2"
	"go.etcd.io/bbolt"
)

const (
	bucketMeta = "meta"
	keyID      = "id"
)

// identity is the file's own id, minted when it was made, with its inode: a
// copy of the file, put back later, is another one.
//
// It must be asked before the bucket of effects is made.
func identity(tx *bbolt.Tx, path string, fresh func() string) (id string, before bool, err error) {
	before = tx.Bucket([]byte(bucketEffects)) != nil && tx.Bucket([]byte(bucketMeta)) == nil
	meta, err := tx.CreateBucketIfNotExists([]byte(bucketMeta))
	if err != nil {
		return "", false, err
	}
	id = string(meta.Get([]byte(keyID)))
	if id == "" {
		id = fresh()
		if err := meta.Put([]byte(keyID), []byte(id)); err != nil {
			return "", false, err
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", false, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return id, before, nil
	}
	return fmt.Sprintf("%s-%d", id, st.Ino), before, nil
}

func (j *Journal) mint() string {
	return ulid.MustNew(ulid.Timestamp(j.cfg.Clock.Now()), rand.Reader).String()
}

// ID names this file. A lease whose grant saw the same ID has all its effects
// here; under any other the journal may not know all of them.
func (j *Journal) ID() string { return j.id }

// Before reports whether this file was made by a version whose files had no ID,
// and got it at this Open.
func (j *Journal) Before() bool { return j.before }
