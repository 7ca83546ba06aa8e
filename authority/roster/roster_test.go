package roster_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/authority/roster"
	"github.com/forgeyard/concurrency/shared/lease"
)

type remote struct {
	dropped chan struct{}
	nudged  chan lease.SetVersion
	woken   chan []string
	inspect func(context.Context) (roster.Report, error)
}

func (r remote) Nudge(_ context.Context, _ string, v lease.SetVersion) error {
	r.nudged <- v
	return nil
}

func (r remote) Inspect(ctx context.Context, _ roster.Question) (roster.Report, error) {
	return r.inspect(ctx)
}

func (r remote) Wake(_ context.Context, scopes []string) error {
	r.woken <- scopes
	return nil
}

func (r remote) Disconnect() error {
	r.dropped <- struct{}{}
	return nil
}

func moved(version uint64) []fold.Moved {
	return []fold.Moved{{Session: "s1", Node: "n1", Version: lease.SetVersion{Generation: 1, Version: version}}}
}

func TestNudgeTellsTheNewestVersionOnly(t *testing.T) {
	t.Parallel()
	r := roster.New(time.Minute, prometheus.NewRegistry())
	told := remote{nudged: make(chan lease.SetVersion)} // holds the teller until it is read
	leave := r.Join("n1", "s1", told)
	other := remote{nudged: make(chan lease.SetVersion, 1)}
	defer r.Join("n1", "s0", other)()

	for v := uint64(2); v <= 50; v++ {
		r.Nudge(moved(v)) // never blocks
	}
	first := <-told.nudged
	if first.Version != 50 { // the teller may have looked before the last one came
		require.Equal(t, uint64(50), (<-told.nudged).Version)
	}
	require.Empty(t, other.nudged, "another session of the node is not meant")
	elsewhere := append(moved(51), fold.Moved{Session: "s1", Node: "n2"}, fold.Moved{Session: "s2", Node: "n1"})
	require.Equal(t, elsewhere[1:], r.Nudge(elsewhere), "neither another node nor another session is connected here")
	require.Equal(t, uint64(51), (<-told.nudged).Version)
	leave()
	leave()
	require.True(t, r.Connected("n1"))
}

func TestInspectNamesWhoDidNotAnswer(t *testing.T) {
	t.Parallel()
	r := roster.New(20*time.Millisecond, prometheus.NewRegistry())
	join := func(node string, inspect func(context.Context) (roster.Report, error)) {
		t.Cleanup(r.Join(node, "s-"+node, remote{inspect: inspect}))
	}
	join("good", func(context.Context) (roster.Report, error) {
		return roster.Report{Node: "somebody else", State: "owned"}, nil
	})
	join("broken", func(context.Context) (roster.Report, error) { return roster.Report{}, errors.New("broken") })
	join("stopped", func(ctx context.Context) (roster.Report, error) {
		<-ctx.Done()
		return roster.Report{}, ctx.Err()
	})
	reports, unreachable := r.Inspect(t.Context(), []string{"stopped", "good", "gone", "broken"}, roster.Question{})
	require.Equal(t, []roster.Report{{Node: "good", State: "owned"}}, reports)
	require.Equal(t, []string{"stopped", "gone", "broken"}, unreachable)
}

func TestDropEndsEveryConnectionOfTheNodeAndNoOther(t *testing.T) {
	t.Parallel()
	r := roster.New(time.Minute, prometheus.NewRegistry())
	links := make([]remote, 3)
	for i, node := range []string{"n1", "n1", "n2"} {
		links[i] = remote{dropped: make(chan struct{}, 2)}
		t.Cleanup(r.Join(node, "s", links[i]))
	}
	r.Drop("n1")
	r.Drop("nobody")
	require.Len(t, links[0].dropped, 1)
	require.Len(t, links[1].dropped, 1)
	require.Empty(t, links[2].dropped)
}

func TestWakeReachesTheNewestConnectionAndNobodyElse(t *testing.T) {
	t.Parallel()
	r := roster.New(time.Minute, prometheus.NewRegistry())
	old, fresh := remote{woken: make(chan []string, 1)}, remote{woken: make(chan []string, 1)}
	defer r.Join("n1", "s1", old)()
	defer r.Join("n1", "s1", fresh)()
	r.Wake("n2", []string{"acme/environment:prod"})
	r.Wake("n1", []string{"acme/environment:prod"})
	require.Equal(t, []string{"acme/environment:prod"}, <-fresh.woken)
	require.Empty(t, old.woken)
}
