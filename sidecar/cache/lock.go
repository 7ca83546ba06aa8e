package cache

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/forgeyard/concurrency/shared/lease"
)

// ErrInUse says that another process has the directory.
var ErrInUse = errors.New("cache: directory is in use by another sidecar")

// Lock is the flock that proves the former process of this directory dead.
type Lock struct {
	file *os.File
	id   lease.LockFile
}

// Acquire takes the lock of a file, which it creates, without waiting.
func Acquire(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", ErrInUse, path)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &Lock{file: f, id: lease.LockFile{Device: st.Dev, Inode: st.Ino}}, nil
}

// ID is the identity of the locked file.
func (l *Lock) ID() lease.LockFile { return l.id }

// Close gives the lock back.
func (l *Lock) Close() error { return l.file.Close() }
