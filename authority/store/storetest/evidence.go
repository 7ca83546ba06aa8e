package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

func evidenceCases() []Case {
	return []Case{
		{"evidence/a report is kept beside its lease, and only by its node", reportKept},
		{"evidence/what a receipt has settled is out of date", reportOutdated},
		{"evidence/I7 a delayed report brings back nothing that is over", reportDelayed},
		{"evidence/an effect is confirmed under a live lease only", confirmLive},
		{"evidence/a confirmation that races with the end is either there or refused", confirmRaces},
		{"evidence/I6 unsettled leases and their evidence are loaded, owed, and kept", unsettledKept},
		{"history/FC97 a recovery drains every lease and closes reconciling scopes", recoveryForgets},
	}
}

func reported(l lease.Lease, state effect.State) effect.Effect {
	return effect.Effect{
		ID: ulid.Make().String(), Lease: l.ID, Provider: "plans", Operation: "put-plan", Safety: effect.InspectBeforeRetry,
		Key: "k1", Digest: [32]byte{7}, State: state, Status: 202, Reason: "why", StartedAt: time.Now().UTC().Truncate(time.Microsecond),
	}
}

func (b *Bench) effects(t *testing.T, sc scope.Scope) []lease.Evidence {
	t.Helper()
	got, err := b.Store.Effects(t.Context(), sc, 100)
	require.NoError(t, err)
	return got
}

func reportKept(t *testing.T, b *Bench) {
	sc := named(t, "reported")
	l := b.hold(t, sc, b.open(t, "n1", MaxTTL))
	e := reported(l, effect.Started)
	require.NoError(t, b.Store.Report(t.Context(), "n2", []effect.Effect{e}), "of another node's lease: left out")
	require.Empty(t, b.effects(t, sc))
	require.NoError(t, b.Store.Report(t.Context(), "n1", []effect.Effect{e}))
	got := b.effects(t, sc)
	require.Len(t, got, 1)
	want := e
	want.Scope, want.Epoch = sc, l.Epoch
	require.Equal(t, want, got[0].Effect)
	require.Equal(t, "n1", got[0].Node)
	require.WithinDuration(t, time.Now(), got[0].ReportedAt, time.Minute)
}

func reportDelayed(t *testing.T, b *Bench) {
	sc := named(t, "delayed")
	l := b.hold(t, sc, b.open(t, "n1", MaxTTL))
	e := reported(l, effect.Started)
	states := func(s effect.State) effect.State {
		e.State = s
		require.NoError(t, b.Store.Report(t.Context(), "n1", []effect.Effect{e}))
		return b.effects(t, sc)[0].Effect.State
	}
	require.Equal(t, effect.Unknown, states(effect.Unknown))
	require.Equal(t, effect.Unknown, states(effect.Started))
	require.Equal(t, effect.Succeeded, states(effect.Succeeded))
	require.Equal(t, effect.Succeeded, states(effect.Unknown))
	require.Equal(t, effect.Succeeded, states(effect.Failed), "the first outcome stands")
}

// reportOutdated: what a receipt has settled is not evidence any more, although
// the last report of it said that it was open.
func reportOutdated(t *testing.T, b *Bench) {
	sc := named(t, "outdated")
	s := b.open(t, "n1", MaxTTL)
	l := b.hold(t, sc, s)
	require.NoError(t, b.Store.Report(t.Context(), "n1", []effect.Effect{reported(l, effect.Started), reported(l, effect.Unknown)}))
	require.Len(t, b.effects(t, sc), 2)
	b.end(t, l, s, true)
	require.Empty(t, b.effects(t, sc))
	b.end(t, b.hold(t, sc, s), s, false)
	got := b.effects(t, sc)
	require.Len(t, got, 1, "only what the second one left")
	require.Equal(t, effect.Unknown, got[0].Effect.State)
}

func (b *Bench) confirm(t *testing.T, l lease.Lease, s lease.Session, e effect.Effect) bool {
	t.Helper()
	ok, err := b.Store.Confirm(t.Context(), store.Confirmation{
		Ref: lease.Ref{Session: s.ID, Nonce: s.Nonce, Lease: l.ID, Epoch: l.Epoch}, Node: s.Node, Effect: e,
	})
	require.NoError(t, err)
	return ok
}

func confirmLive(t *testing.T, b *Bench) {
	sc := named(t, "confirmed")
	s := b.open(t, "n1", MaxTTL)
	l := b.hold(t, sc, s)
	e := reported(l, effect.Started)
	require.True(t, b.confirm(t, l, s, e))
	require.True(t, b.confirm(t, l, s, e), "a repeat")
	require.Equal(t, effect.Started, b.effects(t, sc)[0].Effect.State)

	other, wrong := s, l
	other.Nonce = "another process"
	wrong.Epoch++
	require.False(t, b.confirm(t, l, other, reported(l, effect.Started)))
	require.False(t, b.confirm(t, wrong, s, reported(l, effect.Started)))
	over := e
	over.State = effect.Failed
	require.NoError(t, b.Store.Report(t.Context(), "n1", []effect.Effect{over}))
	require.False(t, b.confirm(t, l, s, e), "what is over is not sent again under the same id")
	b.end(t, l, s, true)
	require.False(t, b.confirm(t, l, s, reported(l, effect.Started)))
}

// end ends a lease by its holder, with one effect Unknown where unclean.
func (b *Bench) end(t *testing.T, l lease.Lease, s lease.Session, clean bool) {
	t.Helper()
	q := lease.Quiescence{}
	if !clean {
		q = lease.Quiescence{Unknown: 1, Left: []effect.Effect{reported(l, effect.Unknown)}}
	}
	require.NoError(t, b.Store.Transact(t.Context(), store.Batch{Scopes: []scope.Scope{l.Scope}, Sessions: []string{s.ID}}, release(l, s, q)))
}

func reconciling() lease.Policy {
	p := policy()
	p.OnUncleanEnd = lease.ReconcileAfter
	return p
}

func release(l lease.Lease, s lease.Session, q lease.Quiescence) func(store.Loaded) (store.Changes, error) {
	return func(ld store.Loaded) (store.Changes, error) {
		ch, _ := lease.Release(facts(ld), reconciling(), caseOf(ld, l.Scope), lease.ReleaseRequest{
			Ref: lease.Ref{Session: s.ID, Nonce: s.Nonce, Lease: l.ID, Epoch: l.Epoch}, Why: lease.Released, Quiescence: q,
		})
		return written(ch), nil
	}
}

// confirmRaces: while a transaction ends the lease, the effect is either
// confirmed and there when the lease has ended, or refused and not there.
func confirmRaces(t *testing.T, b *Bench) {
	sc := named(t, "raced")
	s := b.open(t, "n1", MaxTTL)
	l := b.hold(t, sc, s)
	other := b.DB.Open(t)
	confirmed := make(chan bool, 1)
	var once sync.Once
	end := release(l, s, lease.Quiescence{})
	require.NoError(t, b.Store.Transact(t.Context(), store.Batch{Scopes: []scope.Scope{sc}, Sessions: []string{s.ID}}, func(ld store.Loaded) (store.Changes, error) {
		once.Do(func() {
			go func() {
				ok, err := other.Confirm(context.Background(), store.Confirmation{
					Ref: lease.Ref{Session: s.ID, Nonce: s.Nonce, Lease: l.ID, Epoch: l.Epoch}, Node: s.Node, Effect: reported(l, effect.Started),
				})
				confirmed <- ok && err == nil
			}()
		})
		return end(ld)
	}))
	ok := <-confirmed
	require.Equal(t, ok, len(b.effects(t, sc)) == 1)
	require.False(t, b.confirm(t, l, s, reported(l, effect.Started)), "it has ended")
}

func unsettledKept(t *testing.T, b *Bench) {
	sc := named(t, "unsettled")
	s := b.open(t, "n1", MaxTTL)
	l := b.hold(t, sc, s)
	b.end(t, l, s, false)

	owed, err := b.Store.Set(t.Context(), s.ID, nil)
	require.NoError(t, err)
	require.Len(t, owed.Owed, 1)
	require.True(t, owed.Owed[0].Unsettled)
	require.True(t, owed.Owed[0].Accounted)
	all, err := b.Store.Unsettled(t.Context(), scope.Scope{}, 10)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.NoError(t, b.Store.Prune(t.Context(), store.Retention{Ended: -time.Hour}, 100))

	batch := store.Batch{Scopes: []scope.Scope{sc}, Sessions: []string{s.ID}, Evidence: true}
	var answer lease.Answer
	require.NoError(t, b.Store.Transact(t.Context(), batch, func(ld store.Loaded) (store.Changes, error) {
		c := caseOf(ld, sc)
		c.Unsettled, c.Evidence = ld.Unsettled[sc.ID()], ld.Evidence[sc.ID()]
		require.Len(t, c.Unsettled, 1)
		require.Len(t, c.Evidence, 1)
		require.Equal(t, lease.Blocked, c.Scope.State)
		var ch lease.Change
		ch, answer = lease.Account(facts(ld), reconciling(), c, lease.AccountRequest{Session: s.ID, Nonce: s.Nonce, Lease: l.ID, Epoch: l.Epoch})
		return written(ch), nil
	}))
	require.Equal(t, lease.Done, answer.Code, answer.Detail)
	v, err := b.Store.Scope(t.Context(), sc)
	require.NoError(t, err)
	require.Equal(t, lease.Open, v.Record.State)
	all, err = b.Store.Unsettled(t.Context(), sc, 10)
	require.NoError(t, err)
	require.Empty(t, all)
	require.Equal(t, effect.Reconciled, b.effects(t, sc)[0].Effect.State)
}

func recoveryForgets(t *testing.T, b *Bench) {
	s := b.open(t, "n1", MaxTTL)
	held, idle := named(t, "held"), named(t, "idle")
	l := b.hold(t, held, s)
	done := b.hold(t, idle, s)
	b.end(t, done, s, true)
	before, err := b.Store.Set(t.Context(), s.ID, nil)
	require.NoError(t, err)
	st, err := b.Store.Enlist(t.Context(), store.Incarnation{
		ID: "I1", Live: time.Minute, Recover: "a test",
		Forget: func(ld store.Loaded, why string) (store.Changes, error) {
			require.Contains(t, why, "a test")
			return fold.Forget(facts(ld), ld, func(scope.Scope) lease.Policy { return reconciling() }, why)
		},
	})
	require.NoError(t, err)
	require.True(t, st.Cut)
	require.Greater(t, st.Generation, b.Start.Generation)
	for _, sc := range []scope.Scope{held, idle} {
		v, err := b.Store.Scope(t.Context(), sc)
		require.NoError(t, err)
		require.Equal(t, lease.Blocked, v.Record.State)
		require.True(t, v.Record.Forgotten)
	}
	after, err := b.Store.Set(t.Context(), s.ID, nil)
	require.NoError(t, err)
	require.True(t, before.Version.Before(after.Version), "its node must fetch the set")
	require.Len(t, after.Leases, 1)
	require.Equal(t, lease.Draining, after.Leases[0].State)
	require.Equal(t, l.ID, after.Leases[0].ID)
	require.Equal(t, lease.HistoryWasCut, after.Leases[0].EndReason)
}
