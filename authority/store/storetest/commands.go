package storetest

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store"
)

func commandCases() []Case {
	return []Case{
		{"command/result is stored with its digest and replayed", commandReplayed},
		{"command/survives a reopen of the store (FC55)", commandSurvivesReopen},
		{"command/one id of two principals is two commands", commandPerPrincipal},
		{"command/FC95 a twin waits and is shown the first result", commandTwinWaits},
		{"command/a rolled back id is free again", commandRolledBack},
	}
}

// result runs one command that answers with text, and returns what it was
// shown as replayed.
func result(t testing.TB, s store.Store, c store.Command, text string) (replayed *store.Stored) {
	t.Helper()
	err := s.Transact(t.Context(), store.Batch{Commands: []store.Command{c}}, func(l store.Loaded) (store.Changes, error) {
		if old, ok := l.Replayed[0]; ok {
			replayed = &old
			return store.Changes{}, nil
		}
		return store.Changes{Results: map[int][]byte{0: []byte(text)}}, nil
	})
	require.NoError(t, err)
	return replayed
}

func commandReplayed(t *testing.T, b *Bench) {
	c := b.command()
	require.Nil(t, result(t, b.Store, c, "one"))
	again := result(t, b.Store, c, "two")
	require.NotNil(t, again)
	require.Equal(t, "one", string(again.Result))
	require.Equal(t, c.Digest, again.Digest)
}

func commandSurvivesReopen(t *testing.T, b *Bench) {
	c := b.command()
	require.Nil(t, result(t, b.Store, c, "one"))
	again := result(t, b.DB.Open(t), c, "two")
	require.NotNil(t, again)
	require.Equal(t, "one", string(again.Result))
}

func commandPerPrincipal(t *testing.T, b *Bench) {
	c := b.command()
	require.Nil(t, result(t, b.Store, c, "one"))
	c.Principal = "somebody else"
	require.Nil(t, result(t, b.Store, c, "two"))
}

func commandTwinWaits(t *testing.T, b *Bench) {
	c := b.command()
	batch := store.Batch{Commands: []store.Command{c}}
	var shown *store.Stored
	b.pair(t, batch, batch,
		func(store.Loaded) (store.Changes, error) {
			return store.Changes{Results: map[int][]byte{0: []byte("first")}}, nil
		},
		func(l store.Loaded) (store.Changes, error) {
			if old, ok := l.Replayed[0]; ok {
				shown = &old
			}
			return store.Changes{}, nil
		})
	require.NotNil(t, shown, "the twin was run as if it were new")
	require.Equal(t, "first", string(shown.Result))
}

func commandRolledBack(t *testing.T, b *Bench) {
	c := b.command()
	no := errors.New("no")
	err := b.Store.Transact(t.Context(), store.Batch{Commands: []store.Command{c}}, func(store.Loaded) (store.Changes, error) {
		return store.Changes{}, no
	})
	require.ErrorIs(t, err, no)
	require.Nil(t, result(t, b.Store, c, "one"))
}
