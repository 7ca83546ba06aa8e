package roster

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
)

// Remote is a connected sidecar, as the door that accepted it speaks to it.
type Remote interface {
	Nudge(ctx context.Context, session string, v lease.SetVersion) error
	Inspect(ctx context.Context, q Question) (Report, error)
	// Wake tells it that scopes wait for a reconciler.
	Wake(ctx context.Context, scopes []string) error
	// Disconnect ends the connection, whatever runs on it.
	Disconnect() error
}

// Question selects what Inspect returns beside the holds.
type Question struct {
	Effects bool
	Limit   int // newest effects; 0: the sidecar's default
}

// Report is what a sidecar knows at this moment.
type Report struct {
	Node    string
	State   string // of its session, as it sees it
	Holds   []Hold
	Effects []effect.Effect
}

// Hold is a sidecar's view of one lease.
type Hold struct {
	Lease    string
	Scope    string
	Epoch    epoch.Epoch
	State    string
	Reason   string
	InFlight int
	Unknown  int
	Holder   lease.Holder
}

// Roster is safe for concurrent use.
type Roster struct {
	timeout time.Duration
	count   prometheus.Gauge

	mu    sync.Mutex
	nodes map[string][]*link // newest last
}

// link is one connection of a node with its session.
type link struct {
	session string
	remote  Remote

	pending  lease.SetVersion // the newest version to tell; under Roster.mu
	nudging  bool             // a goroutine tells it
	departed bool
}

// New makes a roster whose questions and hints take at most timeout per node.
func New(timeout time.Duration, reg prometheus.Registerer) *Roster {
	return &Roster{
		timeout: timeout,
		nodes:   map[string][]*link{},
		count: promauto.With(reg).NewGauge(prometheus.GaugeOpts{
			Name: "forgeyard_nodes_connected", Help: "Sessions connected to this replica.",
		}),
	}
}

// Join adds a connection; leave takes it out again and is idempotent.
func (r *Roster) Join(node, session string, remote Remote) (leave func()) {
	l := &link{session: session, remote: remote}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes[node] = append(r.nodes[node], l)
	r.count.Inc()
	return func() { r.leave(node, l) }
}

func (r *Roster) leave(node string, l *link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.departed {
		return
	}
	l.departed = true
	r.count.Dec()
	links := r.nodes[node]
	for i := range links {
		if links[i] == l {
			r.nodes[node] = append(links[:i:i], links[i+1:]...)
			break
		}
	}
	if len(r.nodes[node]) == 0 {
		delete(r.nodes, node)
	}
}

// Connected reports whether the node has a connection to this replica.
func (r *Roster) Connected(node string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.nodes[node]) > 0
}

// Drop ends every connection of a node to this replica.
func (r *Roster) Drop(node string) {
	r.mu.Lock()
	links := append([]*link{}, r.nodes[node]...)
	r.mu.Unlock()
	for _, l := range links {
		_ = l.remote.Disconnect() // it is gone, or going
	}
}

// Nodes lists the connected nodes, in no order.
func (r *Roster) Nodes() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]string, 0, len(r.nodes))
	for n := range r.nodes {
		out = append(out, n)
	}
	return out
}

// Nudge tells the sidecars of these sessions that their sets have moved, and
// returns the sessions that are not connected to this replica.
func (r *Roster) Nudge(moved []fold.Moved) (elsewhere []fold.Moved) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range moved {
		here := false
		for _, l := range r.nodes[m.Node] {
			if l.session != m.Session {
				continue
			}
			here = true
			if l.pending.Before(m.Version) {
				l.pending = m.Version
			}
			if !l.nudging {
				l.nudging = true
				go r.tell(l)
			}
		}
		if !here {
			elsewhere = append(elsewhere, m)
		}
	}
	return elsewhere
}

// tell carries the newest version until there is no newer one.
func (r *Roster) tell(l *link) {
	var told lease.SetVersion
	for {
		r.mu.Lock()
		next := l.pending
		if l.departed || !told.Before(next) {
			l.nudging = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
		_ = l.remote.Nudge(ctx, l.session, next) // a hint: the next heartbeat tells the same
		cancel()
		told = next
	}
}

// Wake tells a node, in the background, that scopes wait for its reconcilers.
// It is a hint: they ask on a timer too.
func (r *Roster) Wake(node string, scopes []string) {
	remote := r.newest(node)
	if remote == nil {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
		defer cancel()
		_ = remote.Wake(ctx, scopes)
	}()
}

// Inspect asks each of these nodes, in parallel, and names those that are not
// connected to this replica or did not answer in time.
func (r *Roster) Inspect(ctx context.Context, nodes []string, q Question) (reports []Report, unreachable []string) {
	answers := make([]*Report, len(nodes))
	var wait sync.WaitGroup
	for i, node := range nodes {
		remote := r.newest(node)
		if remote == nil {
			continue
		}
		wait.Add(1)
		go func() {
			defer wait.Done()
			ctx, cancel := context.WithTimeout(ctx, r.timeout)
			defer cancel()
			if got, err := remote.Inspect(ctx, q); err == nil {
				got.Node = node // the certificate's word, not the message's
				answers[i] = &got
			}
		}()
	}
	wait.Wait()
	for i, a := range answers {
		if a == nil {
			unreachable = append(unreachable, nodes[i])
			continue
		}
		reports = append(reports, *a)
	}
	return reports, unreachable
}

func (r *Roster) newest(node string) Remote {
	r.mu.Lock()
	defer r.mu.Unlock()
	links := r.nodes[node]
	if len(links) == 0 {
		return nil
	}
	return links[len(links)-1].remote
}
