package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/scope"
)

func faultCases() []Case {
	return []Case{
		{"fault/an error of decide rolls everything back and is returned", decideError},
		{"fault/a panic of decide rolls back and leaves the store usable", decidePanic},
		{"fault/FC55 a caller that is gone does not cancel what has begun", callerGone},
	}
}

func decideError(t *testing.T, b *Bench) {
	sc := named(t, "no")
	no := errors.New("no")
	err := b.Store.Transact(t.Context(), store.Batch{Scopes: []scope.Scope{sc}}, func(l store.Loaded) (store.Changes, error) {
		c, _ := setEpoch(sc, 9)(l)
		return c, no
	})
	require.ErrorIs(t, err, no)
	v, err := b.Store.Scope(t.Context(), sc)
	require.NoError(t, err)
	require.Zero(t, v.Record.Epoch)
}

func decidePanic(t *testing.T, b *Bench) {
	sc := named(t, "panic")
	batch := store.Batch{Scopes: []scope.Scope{sc}}
	require.PanicsWithValue(t, "rule defect", func() {
		_ = b.Store.Transact(t.Context(), batch, func(store.Loaded) (store.Changes, error) { panic("rule defect") })
	})
	require.NoError(t, b.DB.Open(t).Transact(t.Context(), batch, setEpoch(sc, 3)), "the lock was not given back")
}

func callerGone(t *testing.T, b *Bench) {
	sc := named(t, "gone")
	ctx, cancel := context.WithCancel(t.Context())
	c := b.command()
	err := b.Store.Transact(ctx, store.Batch{Commands: []store.Command{c}, Scopes: []scope.Scope{sc}}, func(l store.Loaded) (store.Changes, error) {
		cancel() // the caller gives up while the transaction runs
		changes, err := setEpoch(sc, 5)(l)
		changes.Results = map[int][]byte{0: []byte("landed")}
		return changes, err
	})
	require.NoError(t, err)
	again := result(t, b.Store, c, "twice")
	require.NotNil(t, again)
	require.Equal(t, "landed", string(again.Result))
	err = b.Store.Transact(ctx, store.Batch{Scopes: []scope.Scope{sc}}, setEpoch(sc, 6))
	require.ErrorIs(t, err, store.ErrUnavailable, "one that is gone before begins nothing")
}
