package rpc

import (
	"context"
	"sync"
)

// drain tells running streams to stop and waits for them. Its zero value is
// ready.
type drain struct {
	mu       sync.Mutex
	stop     chan struct{}
	stopping bool
	running  sync.WaitGroup
}

// enter counts a stream in; ok is false once the drain has begun.
func (d *drain) enter() (stop <-chan struct{}, leave func(), ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopping {
		return nil, nil, false
	}
	if d.stop == nil {
		d.stop = make(chan struct{})
	}
	d.running.Add(1)
	return d.stop, d.running.Done, true
}

// run begins the drain and waits for the streams, within ctx. It is
// idempotent.
func (d *drain) run(ctx context.Context) {
	d.mu.Lock()
	if !d.stopping {
		d.stopping = true
		if d.stop != nil {
			close(d.stop)
		}
	}
	d.mu.Unlock()
	done := make(chan struct{})
	go func() {
		d.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
