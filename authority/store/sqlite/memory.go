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
	Renewals    int64            `json:"renewals"` // the file has at least as many
	// Starting: the file may not have reached Incarnation yet.
	Starting bool `json:"starting,omitempty"`
}

// cut says for people what shows that the file is older than this memory, or
// nothing. A start that was interrupted leaves the memory one start ahead of a
// file in which nothing has happened since.
func (m memoryRecord) cut(incarnation, renewals int64) string {
	interrupted := m.Starting && m.Incarnation == incarnation+1
	switch {
	case m.Incarnation != incarnation && !interrupted:
		return fmt.Sprintf("the file is from start %d, the outside memory from start %d", incarnation, m.Incarnation)
	case m.Renewals > renewals:
		return fmt.Sprintf("the file is %d renewals behind the outside memory", m.Renewals-renewals)
	}
	return ""
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
	if err := m.note(r, (*os.File).Sync); err != nil {
		return err
	}
	return syncDir(filepath.Dir(m.path))
}

// note is save without its waits for the disk: after a power loss an older
// record may stand.
func (m memory) note(r memoryRecord, sync func(*os.File) error) error {
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
	err = errors.Join(err, sync(temp), temp.Close())
	if err != nil {
		return fmt.Errorf("write outside memory: %w", err)
	}
	if err := os.Rename(temp.Name(), m.path); err != nil {
		return fmt.Errorf("write outside memory: %w", err)
	}
	return nil
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
