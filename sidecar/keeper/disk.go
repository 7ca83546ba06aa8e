package keeper

import (
	"context"
	"sync"

	"go.uber.org/zap"
)

// disk is the queue of durable writes. They run one after the other beside the
// loop, so that a stalled disk stalls neither the loop nor a cut. The queue has
// no bound of its own: whoever waits for a write asks for no further one, so
// that it holds a few jobs for each hold.
type disk struct {
	mu   sync.Mutex
	jobs []func()
	more chan struct{}
}

func newDisk() *disk { return &disk{more: make(chan struct{}, 1)} }

func (d *disk) put(job func()) {
	d.mu.Lock()
	d.jobs = append(d.jobs, job)
	d.mu.Unlock()
	select {
	case d.more <- struct{}{}:
	default:
	}
}

func (d *disk) take() []func() {
	d.mu.Lock()
	defer d.mu.Unlock()
	jobs := d.jobs
	d.jobs = nil
	return jobs
}

// run works until ctx ends. What is queued then is still written: it is what
// the next process starts from.
func (d *disk) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			for _, job := range d.take() {
				job()
			}
			return
		case <-d.more:
			for _, job := range d.take() {
				job()
			}
		}
	}
}

// persist runs write on the disk's goroutine and then then on the loop.
func (k *Keeper) persist(write func() error, then func(error)) {
	k.disk.put(func() {
		err := write()
		if err != nil {
			k.metrics.diskErrors.Inc()
			k.cfg.Log.Error("write cache", zap.String("node", k.cfg.Node), zap.Error(err))
		}
		if then != nil {
			k.post(func() { then(err) })
		}
	})
}
