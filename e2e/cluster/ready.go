package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// readyTimeout bounds how long a program may take to serve.
const readyTimeout = 30 * time.Second

// awaitReady reads the file that p writes when it serves. A file of an earlier
// process is told apart by its pid.
func awaitReady[T interface{ pid() int }](ctx context.Context, p *Process, path string) (T, error) {
	var ready T
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(path)
		if err == nil {
			if err := json.Unmarshal(text, &ready); err != nil {
				return ready, fmt.Errorf("read %s: %w", path, err)
			}
			if ready.pid() == p.PID() {
				return ready, nil
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return ready, fmt.Errorf("await %s: %w", p.Name, err)
		}
		select {
		case <-tick.C:
		case <-p.gone:
			return ready, fmt.Errorf("%s ended before it served (%w):\n%s", p.Name, p.err, p.Tail())
		case <-ctx.Done():
			return ready, fmt.Errorf("%s does not serve: %w:\n%s", p.Name, ctx.Err(), p.Tail())
		}
	}
}
