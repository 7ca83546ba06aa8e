package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/clock/clocktest"
	"github.com/forgeyard/concurrency/shared/lease"
)

// A replica that was stopped for many times longer than its row counts as live
// comes back while another one has started meanwhile, which tidies up: that its
// row is old is no cut of the history, and ends no lease.
func TestFC07_AReplicaStalledForLongIsNoCutOfTheHistory(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	o := options(clock.System())
	o.Live = 50 * time.Millisecond
	stalled := start(t, openPostgres(t, url), o)
	o = options(clock.System())
	o.Live = 50 * time.Millisecond
	running := start(t, openPostgres(t, url), o)
	n := register(t, running, "node-a")
	held := acquire(t, running, n, environment(t, "prod"))
	require.Equal(t, lease.Acquired, held.Code)
	before := running.History().Generation

	for stop := time.NewTimer(40 * o.Live); ; { // far beyond Live for the one, never for the other
		require.NoError(t, running.Renew(t.Context()))
		select {
		case <-stop.C:
		default:
			continue
		}
		break
	}
	o = options(clock.System())
	o.Live = 50 * time.Millisecond
	started := start(t, openPostgres(t, url), o)
	require.Equal(t, before, started.History().Generation, "somebody was live")

	require.NoError(t, stalled.Renew(t.Context()))
	require.Equal(t, before, stalled.History().Generation)
	require.NoError(t, running.Renew(t.Context()))
	require.Equal(t, before, running.History().Generation)
	require.Equal(t, lease.Renewed, beat(t, stalled, n).Code)
	require.Equal(t, held.Epoch, n.epoch)
}

// Rows are tidied away at last: a process that was stalled for so long that
// its own may be gone enlists again, and takes nothing for a cut. One that was
// not stalled does.
func TestARowIsMissedOnlyAsLongAsItIsKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stalled time.Duration
		cut     bool
	}{
		"stalled for longer than rows are kept": {store.IncarnationKept, false},
		"stalled for less":                      {store.IncarnationKept - time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := newDatabase(t)
			clk := clocktest.New(time.Now())
			stalled := start(t, openPostgres(t, url), options(clk))
			start(t, openPostgres(t, url), options(clock.System())) // somebody is live
			before := stalled.History().Generation
			conn, err := pgx.Connect(t.Context(), url)
			require.NoError(t, err)
			defer conn.Close(context.Background())
			_, err = conn.Exec(t.Context(), `DELETE FROM incarnation WHERE id = (SELECT min(id) FROM incarnation)`)
			require.NoError(t, err)
			clk.Advance(c.stalled)
			require.NoError(t, stalled.Renew(t.Context()))
			require.Equal(t, c.cut, stalled.History().Generation > before)
			require.NoError(t, stalled.Renew(t.Context()), "its row is there again")
		})
	}
}
