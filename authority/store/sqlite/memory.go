package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/forgeyard/concurrency/shared/epoch"
)

// memory is the outside memory: what the database must never fall behind.
type memory struct {
	path string
}

type memoryRecord struct {
	Authority   string           `json:"authority"`
	Incarnation int64            `json:"incarnation"`
	Generation  epoch.Generation `json:"generation"`
}

// load returns the zero record when there is no file yet.
func (m memory) load() (memoryRecord, error) {
	text, err := os.ReadFile(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return memoryRecord{}, nil
	}
	if err != nil {
		return memoryRecord{}, fmt.Errorf("read outside memory: %w", err)
	}
	var r memoryRecord
	if err := json.Unmarshal(text, &r); err != nil {
		return memoryRecord{}, fmt.Errorf("read outside memory %s: %w", m.path, err)
	}
	return r, nil
}

// save replaces the file so that after a crash the old or the new one stands.
func (m memory) save(r memoryRecord) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write outside memory: %w", err)
	}
	temp, err := os.CreateTemp(filepath.Dir(m.path), ".memory-*")
	if err != nil {
		return fmt.Errorf("write outside memory: %w", err)
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(text)
	err = errors.Join(err, temp.Sync(), temp.Close())
	if err != nil {
		return fmt.Errorf("write outside memory: %w", err)
	}
	if err := os.Rename(temp.Name(), m.path); err != nil {
		return fmt.Errorf("write outside memory: %w", err)
	}
	return syncDir(filepath.Dir(m.path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}
