package keeper

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/cache"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// Config is what a Keeper needs.
type Config struct {
	Node          string
	BootID        string
	Budget        lease.Budget // LockDelay is the authority's, told at registration
	SettleTimeout time.Duration
	Cache         *cache.Cache
	LockFile      lease.LockFile
	Gate          Gate
	Effects       Effects
	Clock         clock.Clock
	Log           *zap.Logger
	Registerer    prometheus.Registerer
	// Alive reports whether a process still runs, for holds of a former sidecar.
	Alive func(pid int, startTime uint64) bool
}

// Keeper owns the holds. Use New, then Run.
type Keeper struct {
	cfg     Config
	timing  ownership.Timing
	nonce   string
	metrics metrics
	events  chan func()
	disk    *disk
	stopped chan struct{}
	status  atomic.Pointer[sessionView]
	view    atomic.Pointer[ownership.View]

	// Everything below belongs to the loop.
	link     Link
	session  session
	former   cache.Session // of the process before this one, until registered
	holds    map[ownership.Key]*hold
	commands map[string]*hold // by the caller's command id
	cuts     []ownership.Key  // to be cut after the next publication
	gone     []ownership.Key  // to be forgotten after that
	dirty    bool
	// releasing names orphaned leases that are being given back.
	releasing map[string]bool
	covers    map[string]*cover      // by lease: what this node may have to account for
	owed      map[string]lease.Lease // by the last set: what the authority waits to hear about
	patrol    patrol
	clocks    clocks
	nextBeat  boottime.Instant
	closing   bool // the session is being closed: nothing asks any more
}

// session is the loop's knowledge of its session.
type session struct {
	id        string
	ctx       context.Context // ends with the session
	cancel    context.CancelFunc
	tracker   ownership.Tracker
	confirmed boottime.Instant // sending of the last request that confirmed it
	connected bool
	beat      attempt
	fetch     attempt
	again     bool // fetch once more after this fetch
	detail    string
}

// New restores what the cache knows and publishes it as Uncertain.
func New(cfg Config, nonce string) (*Keeper, error) {
	k := &Keeper{
		cfg: cfg, timing: ownership.TimingOf(cfg.Budget), nonce: nonce, metrics: newMetrics(cfg.Registerer),
		events: make(chan func(), 64), disk: newDisk(), stopped: make(chan struct{}),
		holds: map[ownership.Key]*hold{}, commands: map[string]*hold{}, releasing: map[string]bool{},
		covers: map[string]*cover{}, owed: map[string]lease.Lease{},
	}
	k.clocks = readClocks(cfg.Clock)
	if err := k.restore(); err != nil {
		return nil, fmt.Errorf("restore holds: %w", err)
	}
	k.flush()
	k.registerAge()
	return k, nil
}

// Run is the loop; it ends with ctx and leaves the session to a successor. It
// returns when the last durable write is done.
func (k *Keeper) Run(ctx context.Context, link Link) error {
	k.link = link
	var writes sync.WaitGroup
	writes.Go(func() { k.disk.run(ctx) })
	defer writes.Wait()
	defer close(k.stopped)
	timer := k.cfg.Clock.NewTimer(k.untilNext())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			if k.session.cancel != nil {
				k.session.cancel()
			}
			return nil
		case f := <-k.events:
			f()
		case <-timer.C():
		}
		k.wake()
		timer.Reset(k.untilNext())
	}
}

// wake does everything that time asks for, then publishes.
func (k *Keeper) wake() {
	now := k.cfg.Clock.Boot()
	if why := k.clocks.compare(k.cfg.Clock); why != "" {
		k.cfg.Log.Warn("clock event", zap.String("node", k.cfg.Node), zap.String("why", why))
		k.eachHold(ownership.Event{Kind: ownership.EvClock, Now: now, Detail: why})
		k.giveUpBeat()
	}
	for _, h := range k.holds {
		k.step(h, ownership.Event{Kind: ownership.EvTick, Now: now})
		k.timers(h, now)
	}
	k.giveUpSlow(now)
	k.askForOwed(now)
	if k.session.id != "" && !k.closing && !k.session.beat.running && !now.Before(k.nextBeat) {
		k.startBeat()
	}
	k.flush()
}

// untilNext is how long nothing is due.
func (k *Keeper) untilNext() time.Duration {
	now := k.cfg.Clock.Boot()
	next := now.Add(k.cfg.Budget.Interval) // clocks are compared at least so often
	earlier := func(at boottime.Instant) {
		if at != 0 && at.Before(next) {
			next = at
		}
	}
	if k.session.id != "" && !k.closing && !k.session.beat.running {
		earlier(max(k.nextBeat, 1))
	}
	earlier(k.patrol.at)
	for _, a := range []attempt{k.session.beat, k.session.fetch} {
		if a.running {
			earlier(a.until)
		}
	}
	for _, h := range k.holds {
		if at, ok := h.m.Deadline(); ok {
			earlier(max(at, 1))
		}
		earlier(h.retryAt)
		earlier(h.waitUntil)
		earlier(h.endBy)
		if h.m.Term.State == ownership.Releasing && !h.settleCut {
			earlier(h.settleBy)
		}
		earlier(h.forgetAt)
	}
	return max(next.Sub(now), 0)
}

// post hands f to the loop; it is dropped when the loop has ended.
func (k *Keeper) post(f func()) {
	select {
	case k.events <- f:
	case <-k.stopped:
	}
}

// do runs f on the loop and waits for it.
func (k *Keeper) do(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case k.events <- func() { f(); close(done) }:
	case <-ctx.Done():
		return ctx.Err()
	case <-k.stopped:
		return ErrStopped
	}
	select {
	case <-done:
		return nil
	case <-k.stopped:
		return ErrStopped
	}
}

// flush publishes what changed, then cuts what was taken away.
func (k *Keeper) flush() {
	if k.dirty {
		k.dirty = false
		v := &ownership.View{Holds: make(map[ownership.Key]ownership.Entry, len(k.holds))}
		for key, h := range k.holds {
			v.Holds[key] = ownership.Entry{Term: h.m.Term, InFlight: h.inFlight}
		}
		k.view.Store(v)
		k.cfg.Gate.Publish(v)
		for _, h := range k.holds { // after the gate: who is told "owned" calls at once
			h.tell()
		}
	}
	for _, key := range k.cuts {
		k.cfg.Gate.Cut(key)
	}
	for _, key := range k.gone {
		k.cfg.Gate.Forget(key)
	}
	k.cuts, k.gone = nil, nil
	k.publishStatus()
}

// sessionView is what Status reads without the loop.
type sessionView struct {
	id, detail string
	confirmed  boottime.Instant
	version    lease.SetVersion
}

func (k *Keeper) publishStatus() {
	k.status.Store(&sessionView{
		id: k.session.id, detail: k.session.detail, confirmed: k.session.confirmed, version: k.session.tracker.Applied,
	})
	k.metrics.holds.Set(float64(len(k.holds)))
}
