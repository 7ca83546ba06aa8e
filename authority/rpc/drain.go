package rpc

import (
	"context"
	"sync"
	"time"

	"github.com/forgeyard/concurrency/shared/clock"
)

// drain tells running streams to stop and waits for them. Its zero value is
// ready, and tells all of them at once.
type drain struct {
	clock clock.Clock // of the gaps; nil: none

	mu       sync.Mutex
	streams  map[chan struct{}]struct{} // closed when that stream has to stop
	stopping bool
	running  sync.WaitGroup
}

// Streams are sent away one after the other, so that the replicas that they go
// to need not take them all at once (FC-41).
const (
	drainGap     = time.Millisecond // between two streams
	longestDrain = 2 * time.Second  // for the last one to be told
)

// enter counts a stream in; ok is false once the drain has begun.
func (d *drain) enter() (stop <-chan struct{}, leave func(), ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopping {
		return nil, nil, false
	}
	if d.streams == nil {
		d.streams = map[chan struct{}]struct{}{}
	}
	own := make(chan struct{})
	d.streams[own] = struct{}{}
	d.running.Add(1)
	return own, func() {
		d.mu.Lock()
		delete(d.streams, own)
		d.mu.Unlock()
		d.running.Done()
	}, true
}

// run begins the drain and waits for the streams, within ctx. It is
// idempotent.
func (d *drain) run(ctx context.Context) {
	d.stop(ctx)
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

// stop tells each stream once; when ctx ends before, the rest at once.
func (d *drain) stop(ctx context.Context) {
	d.mu.Lock()
	first := !d.stopping
	d.stopping = true
	var streams []chan struct{}
	for own := range d.streams {
		streams = append(streams, own)
	}
	d.mu.Unlock()
	if !first || len(streams) == 0 {
		return
	}
	gap := min(drainGap, longestDrain/time.Duration(len(streams)))
	for _, own := range streams {
		close(own)
		d.wait(ctx, gap)
	}
}

func (d *drain) wait(ctx context.Context, gap time.Duration) {
	if d.clock == nil {
		return
	}
	timer := d.clock.NewTimer(gap)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}
