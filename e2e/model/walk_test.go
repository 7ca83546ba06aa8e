package model_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	. "github.com/forgeyard/concurrency/e2e/model"
	"github.com/forgeyard/concurrency/shared/lease"
)

// walker is a random walk: every transition there is, in any order, with
// messages late, lost and repeated, clocks that run apart by up to 8 %, and a
// store clock that is stepped.
type walker struct {
	w      World
	owners map[int]bool // nodes that used the scope at some time
	dump   *World
}

func anyConfig(t *rapid.T) *Config {
	ttl := rapid.SampledFrom([]time.Duration{2 * time.Second, 15 * time.Second, time.Minute}).Draw(t, "ttl")
	margin := rapid.SampledFrom([]time.Duration{500 * time.Millisecond, time.Second}).Draw(t, "margin")
	b := lease.Budget{TTL: ttl, Margin: margin, LockDelay: 500*time.Millisecond + ttl/5 - margin}
	if b.LockDelay < 400*time.Millisecond {
		b.LockDelay = 400 * time.Millisecond
	}
	p := lease.Policy{
		Requirement: lease.Exclusive, MinTTL: lease.TTLFloor, MaxTTL: time.Minute, LockDelay: b.LockDelay, ClaimTimeout: ttl / 2,
		OnUncleanEnd: rapid.SampledFrom([]lease.OnUncleanEnd{lease.FreeAfter, lease.ReconcileAfter}).Draw(t, "unclean"),
		MaxHold:      rapid.SampledFrom([]time.Duration{0, ttl, 3 * ttl}).Draw(t, "max hold"),
	}
	rate := rapid.Float64Range(0.96, 1.04)
	maxTTL := rapid.SampledFrom([]time.Duration{ttl, time.Minute}).Draw(t, "max ttl")
	return &Config{
		Budget: b, Policy: p, MaxTTL: maxTTL, Clone: rapid.Bool().Draw(t, "clone"),
		Rates: []float64{rate.Draw(t, "rate 0"), rate.Draw(t, "rate 1"), rate.Draw(t, "rate 2")},
	}
}

func (k *walker) take(t *rapid.T, w World, err error) {
	require.NoError(t, err)
	require.NoError(t, w.Check())
	k.w = w
	for _, i := range w.Users() {
		k.owners[i] = true
	}
}

func (k *walker) node(t *rapid.T) int { return rapid.IntRange(0, len(k.w.Nodes)-1).Draw(t, "node") }

func (k *walker) ask(kind Kind) func(*rapid.T) {
	return func(t *rapid.T) {
		w, ok := k.w.Ask(k.node(t), kind, rapid.IntRange(0, 1).Draw(t, "hold"))
		if ok && len(w.Net) < 12 {
			k.take(t, w, nil)
		}
	}
}

// quick asks and lets request and answer through at once: walks that only
// send at random seldom own anything.
func (k *walker) quick(t *rapid.T) {
	i := k.node(t)
	for _, kind := range []Kind{Register, Beat, Fetch, Acquire, Claim} {
		w, ok := k.w.Ask(i, kind, 0)
		for range 2 {
			if !ok {
				break
			}
			var err error
			w, err = w.Deliver(len(w.Net)-1, false)
			k.take(t, w, err)
		}
	}
}

func (k *walker) deliver(keep bool) func(*rapid.T) {
	return func(t *rapid.T) {
		if len(k.w.Net) == 0 {
			return
		}
		w, err := k.w.Deliver(rapid.IntRange(0, len(k.w.Net)-1).Draw(t, "message"), keep && len(k.w.Net) < 12)
		k.take(t, w, err)
	}
}

func (k *walker) actions(cfg *Config) map[string]func(*rapid.T) {
	tick := func(t *rapid.T) {
		d := rapid.Int64Range(1, int64(cfg.Budget.TTL)*3/2).Draw(t, "passes")
		k.take(t, k.w.Advance(time.Duration(d)), nil)
	}
	all := map[string]func(*rapid.T){
		"time": tick, "time again": tick, "deliver": k.deliver(false), "deliver more": k.deliver(false), "repeat": k.deliver(true),
		"quick": k.quick, "quick again": k.quick,
		"sweep":  func(t *rapid.T) { w, err := k.w.Sweep(); k.take(t, w, err) },
		"force":  func(t *rapid.T) { w, err := k.w.Force(rapid.Bool().Draw(t, "accept")); k.take(t, w, err) },
		"reopen": func(t *rapid.T) { w, err := k.w.Reopen(); k.take(t, w, err) },
		"dump":   func(*rapid.T) { w := k.w; k.dump = &w },
		"restore": func(t *rapid.T) {
			if k.dump != nil {
				w, err := k.w.Restore(*k.dump)
				k.take(t, w, err)
			}
		},
		"raise": func(t *rapid.T) { k.take(t, k.w.Raise(), nil) },
		"step": func(t *rapid.T) {
			far := rapid.Int64Range(-int64(2*time.Hour), int64(2*time.Hour))
			near := rapid.Int64Range(-int64(cfg.Budget.TTL), int64(cfg.Budget.TTL))
			k.take(t, k.w.StepClock(time.Duration(rapid.OneOf(far, near).Draw(t, "step"))), nil)
		},
		"small step": func(t *rapid.T) {
			d := int64(cfg.Budget.LockDelay / 4)
			k.take(t, k.w.StepClock(time.Duration(rapid.Int64Range(-d, d).Draw(t, "step"))), nil)
		},
		"restart": func(t *rapid.T) { k.take(t, k.w.Restart(k.node(t)), nil) },
		"reboot":  func(t *rapid.T) { k.take(t, k.w.Reboot(k.node(t)), nil) },
		"sleep":   func(t *rapid.T) { k.take(t, k.w.Sleep(k.node(t)), nil) },
		"drop": func(t *rapid.T) {
			if len(k.w.Net) > 0 {
				k.take(t, k.w.Drop(rapid.IntRange(0, len(k.w.Net)-1).Draw(t, "message")), nil)
			}
		},
	}
	if cfg.Clone {
		all["copy"] = func(t *rapid.T) { k.take(t, k.w.Copy(0, 1), nil) }
	}
	for _, kind := range []Kind{Register, Beat, Beat, Fetch, Acquire, Claim, Renew, Release, Close} {
		all["ask "+string(kind)] = k.ask(kind)
	}
	return all
}

// everybodyLeft: whatever happened, once the processes are gone, their time has
// passed and a person has accepted what they left, the scope can be had again.
func (k *walker) everybodyLeft(t *rapid.T) {
	for i := range k.w.Nodes {
		k.w = k.w.Reboot(i)
	}
	k.w.Net = nil
	k.take(t, k.w.Advance(time.Hour), nil)
	for range 2 { // ends what is over, then opens the scope
		w, err := k.w.Reopen()
		k.take(t, w, err)
	}
	for _, kind := range []Kind{Register, Fetch, Acquire} {
		w, ok := k.w.Ask(0, kind, 0)
		require.True(t, ok, "node 0 asks %s", kind)
		for range 2 {
			var err error
			w, err = w.Deliver(len(w.Net)-1, false)
			k.take(t, w, err)
		}
	}
	require.NotEmpty(t, k.w.Nodes[0].Holds, "nobody can have the scope any more: %+v", k.w.Auth.Case)
}

func TestI1_I2_I6_RandomWalksOverEveryTransition(t *testing.T) {
	t.Parallel()
	var owners atomic.Int64
	for range 20 { // of a hundred walks each
		rapid.Check(t, func(t *rapid.T) {
			cfg := anyConfig(t)
			k := &walker{w: New(cfg), owners: map[int]bool{}}
			t.Repeat(k.actions(cfg))
			k.everybodyLeft(t)
			owners.Add(int64(len(k.owners)))
		})
	}
	require.Greater(t, owners.Load(), int64(50), "the walks hardly ever owned anything")
	t.Logf("%d owners", owners.Load())
}

// A walk that cannot fail proves nothing: without a guard it must.
func TestI1_RandomWalksFailWithoutTheLockDelay(t *testing.T) {
	t.Parallel()
	cfg := small(Off{LockDelay: true})
	cfg.Budget = lease.Budget{TTL: time.Minute, Margin: 500 * time.Millisecond, LockDelay: 12 * time.Second}
	cfg.MaxTTL, cfg.Policy.MaxTTL, cfg.Policy.ClaimTimeout = time.Minute, time.Minute, time.Minute
	cfg.Rates = []float64{0.96, 1} // node 0 counts a minute for longer than the authority does
	w := owned(t, cfg)
	w = must(t, w.Advance(30*time.Second), 0, Beat)
	w = must(t, w.Advance(31*time.Second), 1, Beat)
	w = w.Advance(29500 * time.Millisecond)
	w, ok := w.Ask(1, Acquire, 0)
	require.True(t, ok)
	_, err := w.Deliver(len(w.Net)-1, false)
	require.ErrorContains(t, err, "still use the scope", fmt.Sprintf("%+v", w.Nodes))
}

// A dump from before a grant is put back: the holder lives, and the authority
// has never heard of it.
func TestFC98_LostGrantIsNotGivenAgainWhileItsHolderMayAct(t *testing.T) {
	t.Parallel()
	for _, off := range []Off{{}, {Pause: true}} {
		cfg := small(off)
		w := must(t, must(t, New(cfg), 0, Register), 0, Fetch)
		dump := must(t, must(t, w, 1, Register), 1, Fetch)
		w = must(t, must(t, dump, 0, Acquire), 0, Claim)
		lost := w.Auth.Issued
		require.Equal(t, []int{0}, w.Users())

		w, err := w.Restore(dump)
		require.NoError(t, err)
		w = must(t, w, 1, Beat)
		asked, ok := w.Ask(1, Acquire, 0)
		require.True(t, ok)
		_, err = asked.Deliver(0, false)
		if off.Pause {
			require.ErrorContains(t, err, "still use the scope")
			continue
		}
		require.NoError(t, err)
		w = must(t, w.Advance(4*time.Second), 1, Beat) // ttl and lock delay
		w = must(t, must(t, w, 1, Fetch), 1, Acquire)
		require.Greater(t, w.Auth.Issued, lost, "no epoch is issued twice, not across restores")
		require.Len(t, w.Auth.Case.Leases, 1)
	}
}
