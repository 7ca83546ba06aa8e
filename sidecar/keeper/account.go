package keeper

import (
	"time"

	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/cache"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// Bounds of what is told about effects.
const (
	mostChanges = 200 // with one heartbeat
	mostLeft    = 200 // with one account or release; the number of them is always told
)

// keepCover is how long a cover of a lease is kept that the authority neither
// counts nor asks for.
const keepCover = 7 * 24 * time.Hour

// longestPatrol is the longest pause between two looks for leases that are
// owed: one that ended under a former session changes nothing in the set of the
// present one, so no heartbeat tells of it.
const longestPatrol = 10 * time.Minute

// cover is which journal knows the effects of a lease.
type cover struct {
	cache.Cover
	busy bool // an account is under way
}

// patrol paces those looks.
type patrol struct {
	at    boottime.Instant // the next one; 0: none is due
	pause time.Duration
	look  bool // the next set is the answer to one
}

// soon begins anew with the shortest pause.
func (p *patrol) soon(k *Keeper) {
	p.pause, p.look = k.cfg.Budget.UncertainAfter, true
	p.at = k.cfg.Clock.Boot().Add(p.pause)
}

// askForOwed fetches the set when it is time to look, while there is a lease
// of this node that may have ended without its receipt.
func (k *Keeper) askForOwed(now boottime.Instant) {
	if k.patrol.at == 0 || now.Before(k.patrol.at) {
		return
	}
	if k.session.id == "" || !k.doubtful() {
		k.patrol.at = 0
		return
	}
	k.patrol.pause, k.patrol.look = min(2*k.patrol.pause, longestPatrol), true
	k.patrol.at = now.Add(k.patrol.pause)
	k.startFetch()
}

// doubtful reports whether there is a lease whose end may not be settled.
func (k *Keeper) doubtful() bool {
	for id := range k.covers {
		if h := k.byLease(id); h == nil || h.m.Final() {
			return true
		}
	}
	return false
}

// cover begins the account of a grant, before its first effect.
func (k *Keeper) cover(t ownership.Term) cache.Cover {
	c := cache.Cover{Lease: t.Lease, Scope: t.Scope, Epoch: t.Epoch, Journal: k.cfg.Effects.ID(), At: k.cfg.Clock.Now()}
	k.covers[t.Lease] = &cover{Cover: c}
	return c
}

// restoreCovers takes over what former processes may have to account for.
func (k *Keeper) restoreCovers() error {
	stored, err := k.cfg.Cache.Covers()
	if err != nil {
		return err
	}
	var leases []string
	for _, c := range stored {
		if c.Journal == cache.JournalBefore && k.cfg.Effects.Before() { // an upgrade
			c.Journal, c.At = k.cfg.Effects.ID(), k.cfg.Clock.Now()
			if err := k.cfg.Cache.PutCover(c); err != nil {
				return err
			}
		}
		if c.At.Before(k.cfg.Clock.Now().Add(-keepCover)) {
			if err := k.cfg.Cache.DeleteCover(c.Lease); err != nil {
				return err
			}
			continue
		}
		k.covers[c.Lease] = &cover{Cover: c}
		leases = append(leases, c.Lease)
	}
	k.cfg.Effects.Retell(leases)
	return nil
}

// covered reports whether this process' journal knows every effect of a lease.
func (k *Keeper) covered(id string) bool {
	c := k.covers[id]
	return c != nil && c.Journal == k.cfg.Effects.ID()
}

// quiescence is what the journal knows of a lease whose gate is closed.
func (k *Keeper) quiescence(id string) lease.Quiescence {
	open, unknown := k.cfg.Effects.Counts(id)
	return lease.Quiescence{Unknown: open + unknown, Left: k.cfg.Effects.Left(id, mostLeft), Partial: !k.covered(id)}
}

// oweds takes over what a set says of leases that the authority waits to hear
// about.
func (k *Keeper) oweds(leases []lease.Lease) {
	k.owed = make(map[string]lease.Lease, len(leases))
	for _, l := range leases {
		k.owed[l.ID] = l
		if !k.covered(l.ID) && !l.Accounted {
			k.cfg.Log.Warn("cannot account for a lease: the journal does not reach back to its grant; somebody has to look",
				zap.Stringer("scope", l.Scope), zap.String("node", k.cfg.Node), zap.Stringer("epoch", l.Epoch), zap.String("lease", l.ID))
		}
	}
	k.countOwed()
	k.account()
	if k.patrol.look {
		k.patrol.look = false
		k.learn()
	}
}

// account tells the authority what is new of the leases that it waits to hear
// about: only what the journal provably knows, and only when nothing of them
// can be running any more. Every heartbeat looks again.
func (k *Keeper) account() {
	for id, l := range k.owed {
		c := k.covers[id]
		if !k.covered(id) || c.busy || !k.silent(id) {
			continue
		}
		if q := k.quiescence(id); !l.Accounted || l.Unknown != q.Unknown {
			c.busy = true
			k.startAccount(c, q)
		}
	}
}

// silent reports whether nothing runs under a lease of this node.
func (k *Keeper) silent(id string) bool {
	h := k.byLease(id)
	return h == nil || h.quiet
}

func (k *Keeper) startAccount(c *cover, q lease.Quiescence) {
	s := k.session
	ref := LeaseRef{Scope: c.Scope, Lease: c.Lease, Epoch: uint64(c.Epoch)}
	cmd := k.command(s, Command{Account: &AccountCommand{LeaseRef: ref, Quiescence: q}})
	go func() {
		a, err := k.link.Do(s.ctx, cmd)
		k.post(func() {
			c.busy = false
			if k.session.id == s.id {
				k.accounted(c, q, a, err)
			}
		})
	}()
}

func (k *Keeper) accounted(c *cover, q lease.Quiescence, a lease.Answer, err error) {
	fields := []zap.Field{
		zap.Stringer("scope", c.Scope), zap.String("node", k.cfg.Node), zap.Stringer("epoch", c.Epoch), zap.String("state", string(a.Code)),
		zap.String("lease", c.Lease), zap.Int("unknown", q.Unknown), zap.String("detail", a.Detail),
	}
	switch {
	case err != nil:
		k.cfg.Log.Warn("account", append(fields, zap.Error(err))...)
	case a.Code == lease.Done && q.Unknown > 0:
		k.metrics.accounts.WithLabelValues("unknown").Inc()
		k.cfg.Log.Warn("accounted for a lease; its unknown effects wait for somebody to look", fields...)
		if l, ok := k.owed[c.Lease]; ok {
			l.Accounted, l.Unknown = true, q.Unknown
			k.owed[c.Lease] = l
		}
	case a.Code == lease.Done, a.Code == lease.AlreadyEnded:
		k.metrics.accounts.WithLabelValues("settled").Inc()
		k.cfg.Log.Info("lease settled", fields...)
		k.settled(c.Lease)
	default: // the next set, or heartbeat, brings it up again
		k.metrics.accounts.WithLabelValues("refused").Inc()
		k.cfg.Log.Warn("account refused", append(fields, zap.String("reason", string(a.Reason)))...)
	}
}

// settled forgets a lease of which nothing is owed any more.
func (k *Keeper) settled(id string) {
	delete(k.covers, id)
	delete(k.owed, id)
	k.countOwed()
	k.persist(func() error { return k.cfg.Cache.DeleteCover(id) }, nil)
}

// countOwed shows what keeps scopes blocked on account of this node.
func (k *Keeper) countOwed() {
	covered := 0
	for id := range k.owed {
		if k.covered(id) {
			covered++
		}
	}
	k.metrics.owed.WithLabelValues("covers").Set(float64(covered))
	k.metrics.owed.WithLabelValues("does-not-cover").Set(float64(len(k.owed) - covered))
}

// afterRelease looks at what the authority made of a release: a lease that it
// had ended before is not settled by it.
func (k *Keeper) afterRelease(id string, a lease.Answer) {
	switch {
	case k.covers[id] == nil:
	case a.Code == lease.Done && a.Lease != nil && !a.Lease.Unsettled:
		k.settled(id)
	case a.Code == lease.Done || a.Code == lease.AlreadyEnded:
		k.startFetch() // it says whether an account is waited for
		k.patrol.soon(k)
	}
}
