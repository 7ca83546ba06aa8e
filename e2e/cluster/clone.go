package cluster

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Clone copies the data directory as it is, while the sidecar runs, and returns
// a sidecar of the same node on the copy; Restart starts it. Sockets and what
// was announced are left out.
func (s *Sidecar) Clone(name string) (*Sidecar, error) {
	c := &Sidecar{opts: s.opts, dir: filepath.Join(s.opts.Dir, name)}
	err := filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(s.dir, path)
		if err != nil {
			return err
		}
		to := filepath.Join(c.dir, rel)
		switch {
		case e.IsDir():
			return os.MkdirAll(to, 0o700)
		case !e.Type().IsRegular() || e.Name() == "ready.json":
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, content, 0o600)
	})
	if err != nil {
		return nil, fmt.Errorf("clone sidecar: %w", err)
	}
	text, err := os.ReadFile(c.config())
	if err != nil {
		return nil, fmt.Errorf("clone sidecar: %w", err)
	}
	text = bytes.ReplaceAll(text, []byte(s.dir+"/"), []byte(c.dir+"/"))
	text = bytes.ReplaceAll(text, []byte("data_dir: "+s.dir+"\n"), []byte("data_dir: "+c.dir+"\n"))
	if err := os.WriteFile(c.config(), text, 0o600); err != nil {
		return nil, fmt.Errorf("clone sidecar: %w", err)
	}
	return c, nil
}

// Forget removes what a stopped sidecar, or one that was never started, knows
// of its session; its identity stays.
func (s *Sidecar) Forget() error {
	files, err := filepath.Glob(filepath.Join(s.dir, "*.db"))
	if err != nil {
		return fmt.Errorf("forget session: %w", err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			return fmt.Errorf("forget session: %w", err)
		}
	}
	return nil
}
