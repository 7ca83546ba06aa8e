package journal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/effect"
)

// states is what is due, by id.
func states(changes []effect.Effect) map[string]effect.State {
	out := map[string]effect.State{}
	for _, e := range changes {
		out[e.ID] = e.State
	}
	return out
}

func TestI6_ChangesComeAgainUntilTheyAreAcknowledged(t *testing.T) {
	t.Parallel()
	j := open(t, config(t))
	require.NoError(t, j.Begin(t.Context(), intent("01")))
	require.Equal(t, map[string]effect.State{"01": effect.Started}, states(j.Changes(10)))
	first := j.Changes(10)
	require.Len(t, first, 1, "it was not acknowledged")
	j.Settle("01", effect.Succeeded, "", 201)
	j.Acknowledge(first)
	require.Equal(t, map[string]effect.State{"01": effect.Succeeded}, states(j.Changes(10)), "the acknowledgement is of an older state")
	j.Acknowledge(j.Changes(10))
	require.Empty(t, j.Changes(10))
}

func TestWhatBeganAndSettledBetweenTwoReportsIsNotReported(t *testing.T) {
	t.Parallel()
	j := open(t, config(t))
	require.NoError(t, j.Begin(t.Context(), intent("01")))
	j.Settle("01", effect.Succeeded, "", 201)
	j.Refuse(intent("02"), "lost")
	require.Empty(t, j.Changes(10))
	require.NoError(t, j.Begin(t.Context(), intent("03")))
	j.Told("03")
	j.Settle("03", effect.Failed, "not-sent: lost", 0)
	require.Equal(t, map[string]effect.State{"03": effect.Failed}, states(j.Changes(10)), "the authority believes it open")
}

func TestChangesAreBoundedAndTheOldestComeFirst(t *testing.T) {
	t.Parallel()
	j := open(t, config(t))
	for i := range 5 {
		require.NoError(t, j.Begin(t.Context(), intent(fmt.Sprintf("%02d", i))))
	}
	first := j.Changes(2)
	require.Equal(t, map[string]effect.State{"00": effect.Started, "01": effect.Started}, states(first))
	j.Acknowledge(first)
	require.Equal(t, map[string]effect.State{"02": effect.Started, "03": effect.Started, "04": effect.Started}, states(j.Changes(10)))
}

// What a former process told to be open, and settled, is told again: its
// acknowledgement may be missing.
func TestI6_ARestartTellsAgain(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	j := open(t, cfg)
	for _, id := range []string{"01", "02"} {
		require.NoError(t, j.Begin(t.Context(), intent(id)))
	}
	j.Changes(10)
	j.Settle("01", effect.Succeeded, "", 201)
	require.NoError(t, j.Close())
	again := open(t, cfg)
	require.Equal(t, map[string]effect.State{"02": effect.Unknown}, states(again.Changes(10)))
	again.Retell([]string{"L"})
	require.Equal(t, map[string]effect.State{"01": effect.Succeeded, "02": effect.Unknown}, states(again.Changes(10)))
	left := again.Left("L", 10)
	require.Len(t, left, 2)
	require.Equal(t, effect.Unknown, left[0].State, "what nobody knows comes first")
	require.Len(t, again.Left("L", 1), 1)
	require.Empty(t, again.Left("another", 10))
}

func TestAnUnknownEffectIsReconciledByWhatSomebodySaw(t *testing.T) {
	t.Parallel()
	j := open(t, config(t))
	require.NoError(t, j.Begin(t.Context(), intent("01")))
	j.Reconcile("01", effect.Failed, "no such plan")
	e, _ := j.Get("01")
	require.Equal(t, effect.Started, e.State, "it is running")
	j.Settle("01", effect.Unknown, "no answer", 0)
	j.Reconcile("01", effect.Failed, "no such plan")
	e, _ = j.Get("01")
	require.Equal(t, effect.Reconciled, e.State)
	require.Equal(t, effect.Failed, e.Observed)
	_, unknown := j.Counts("L")
	require.Zero(t, unknown)
}

func TestI6_AnotherFileIsAnotherJournal(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	j := open(t, cfg)
	id := j.ID()
	require.NotEmpty(t, id)
	require.NoError(t, j.Close())
	j = open(t, cfg)
	require.Equal(t, id, j.ID(), "the same file")
	require.NoError(t, j.Close())

	raw, err := os.ReadFile(cfg.Path)
	require.NoError(t, err)
	copied := cfg
	copied.Path = filepath.Join(t.TempDir(), "journal.db")
	require.NoError(t, os.WriteFile(copied.Path, raw, 0o600))
	require.NotEqual(t, id, open(t, copied).ID(), "a copy knows what was in it, not what came since")

	require.NoError(t, os.WriteFile(cfg.Path, []byte("damaged"), 0o600))
	j = open(t, cfg)
	require.NotEmpty(t, j.Damage().SetAside)
	require.NotEqual(t, id, j.ID())
}
