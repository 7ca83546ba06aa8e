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
func identity(tx *bbolt.Tx, path string, fresh func() string) (string, error) {
	meta, err := tx.CreateBucketIfNotExists([]byte(bucketMeta))
	if err != nil {
		return "", err
	}
	id := string(meta.Get([]byte(keyID)))
	if id == "" {
		id = fresh()
		if err := meta.Put([]byte(keyID), []byte(id)); err != nil {
			return "", err
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return id, nil
	}
	return fmt.Sprintf("%s-%d", id, st.Ino), nil
}

func (j *Journal) mint() string {
	return ulid.MustNew(ulid.Timestamp(j.cfg.Clock.Now()), rand.Reader).String()
}

// ID names this file. A lease whose grant saw the same ID has all its effects
// here; under any other the journal may not know all of them.
func (j *Journal) ID() string { return j.id }
