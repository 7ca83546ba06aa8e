package sidecar

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/tunnel"
	"github.com/forgeyard/concurrency/sidecar/journal"
	"github.com/forgeyard/concurrency/sidecar/uplink"
)

// inspector answers the authority's questions from the published View.
type inspector struct{ s *Sidecar }

var _ uplink.Inspector = inspector{}

// Inspect implements uplink.Inspector.
func (i inspector) Inspect(effects bool, limit int) uplink.Report {
	r := uplink.Report{State: i.s.keeper.Status().State}
	if v := i.s.keeper.View(); v != nil { // nil before the first hold
		for _, e := range v.Holds {
			_, unknown := i.s.journal.Counts(e.Term.Lease)
			r.Holds = append(r.Holds, uplink.HoldReport{Term: e.Term, InFlight: e.InFlight.Load(), Unknown: unknown})
		}
	}
	if effects {
		r.Effects = i.s.journal.List(journal.Filter{Limit: limit})
	}
	return r
}

// effects is the journal as the local API asks it.
type effects struct{ *journal.Journal }

// Effects lists by scope and state, newest first.
func (e effects) Effects(scope, state string, limit int) []effect.Effect {
	return e.List(journal.Filter{Scope: scope, State: effect.State(state), Limit: limit})
}

// Reconcile implements localapi.Effects.
func (e effects) Reconcile(r lease.Resolution) { e.Journal.Reconcile(r.Effect, r.Outcome, r.Seen) }

// relay hands the authority's hint on to the door, which is made later than the
// uplink that hears it.
type relay struct{ to atomic.Pointer[func()] }

func (r *relay) tell(f func()) { r.to.Store(&f) }

func (r *relay) wake() {
	if f := r.to.Load(); f != nil {
		(*f)()
	}
}

// patience is how long a replica may be silent: two of them can be left within
// uncertain_after.
func patience(s SessionConfig) time.Duration { return max(s.UncertainAfter/3, 200*time.Millisecond) }

// tunnelOptions notice a dead peer early enough to try another replica while
// the session can still be saved.
func tunnelOptions(s SessionConfig, log *zap.Logger) tunnel.Options {
	return tunnel.Options{
		KeepAlive: max(s.Interval, 200*time.Millisecond), WriteTimeout: patience(s), HandshakeTimeout: patience(s), Logger: log,
	}
}

// shuffled is an order of this process's own: replicas share the nodes, and
// the nodes of one that stopped spread over all others.
func shuffled(addresses []string) []string {
	out := slices.Clone(addresses)
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}
