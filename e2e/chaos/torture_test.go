package chaos_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/e2e/cluster"
	"github.com/forgeyard/concurrency/e2e/history"
)

// TestTorture is one run: SEED decides the schedule, FOR how long it lasts.
// The summary is what stands in README.md.
func TestTorture(t *testing.T) {
	if os.Getenv("FOR") == "" {
		t.Skip("`make chaos SEED=1 FOR=60s` runs it")
	}
	if !inOwnNamespaces(t) {
		return
	}
	seed, length := settings(t)
	bin, err := cluster.Programs(t.TempDir())
	require.NoError(t, err)
	faults := plan(seed, length)
	if testing.Verbose() || t.Failed() {
		for _, f := range faults {
			t.Log(f)
		}
	}
	w := build(t, bin, seed%2 == 0)
	alice, err := w.person()
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	counts := &tally{refusal: map[string]int{}}
	loaded, settled := make(chan struct{}), make(chan struct{})
	go func() { defer close(loaded); w.load(ctx, seed, counts) }()
	go func() { defer close(settled); alice.work(ctx) }()

	happened := w.nemesis(t.Context(), faults)
	rest, cancel := context.WithTimeout(t.Context(), max(length-w.history.At(time.Now()), 3*time.Second))
	<-rest.Done()
	cancel()
	recovered := w.everyScopeIsGrantable(t)
	stop()
	<-loaded
	<-settled
	w.judge(t, seed, length, happened, counts, alice, recovered)
}

// settings reads SEED and FOR; without a seed one is drawn and printed.
func settings(t *testing.T) (seed uint64, length time.Duration) {
	seed, length = uint64(time.Now().UnixNano()), time.Minute
	var err error
	if text := os.Getenv("SEED"); text != "" {
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "SEED")
	}
	if text := os.Getenv("FOR"); text != "" {
		length, err = time.ParseDuration(text)
		require.NoError(t, err, "FOR")
	}
	return seed, length
}

// everyScopeIsGrantable waits, after the last fault is healed, until each scope
// was granted once more, and returns how long that took.
func (w *world) everyScopeIsGrantable(t *testing.T) time.Duration {
	from := w.history.At(time.Now())
	limit := time.Now().Add(90 * time.Second)
	for {
		newest := map[string]time.Duration{}
		for _, g := range w.history.Grants() {
			newest[g.Scope] = g.Returned
		}
		missing := slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return newest[s] > from })
		if len(missing) == 0 {
			return w.history.At(time.Now()) - from
		}
		if time.Now().After(limit) {
			t.Errorf("not granted again within 90 s after the last fault: %v", missing)
			return w.history.At(time.Now()) - from
		}
		pause(t.Context(), 100*time.Millisecond)
	}
}

func (w *world) judge(t *testing.T, seed uint64, length time.Duration, faults []happened, c *tally, p *person, recovered time.Duration) {
	grants, writes := w.history.Grants(), w.history.Writes()
	violations := history.Audit(grants, writes)
	illegal, undecided := history.Linearizable(grants, writes, time.Minute)
	violations = append(violations, illegal...)
	byKind := map[string]int{}
	for _, f := range faults {
		byKind[f.Kind]++
		if f.Err != nil {
			t.Errorf("fault %s could not be made: %v", f.fault, f.Err)
		}
	}
	var kinds []string
	for _, k := range slices.Sorted(maps.Keys(byKind)) {
		kinds = append(kinds, fmt.Sprintf("%s %d", k, byKind[k]))
	}
	kinds = append(kinds, fmt.Sprintf("kill-controller %d", c.killed.Load()))
	quiet := silences(faults, grants, writes)
	t.Logf("seed %d for %s: %d violations", seed, length, len(violations))
	t.Logf("operations %d: grants %d, not granted %d, releases %d", c.operations.Load(), c.grants.Load(), c.notGranted.Load(), c.released.Load())
	t.Logf("writes %d accepted, %d refused %v, %d without an answer; the provider saw %d", c.written.Load(), c.refused.Load(), c.refusal, c.unanswered.Load(), len(writes))
	t.Logf("faults %d: %s", len(faults), strings.Join(kinds, ", "))
	if w.db.pooler != nil {
		t.Logf("PgBouncer died by itself %d times", w.db.pooler.deaths)
	}
	t.Logf("scopes reopened by a person %d, effects resolved %d", p.reopened.Load(), p.resolved.Load())
	t.Logf("time to silence of %d cut holders: %s; budget %s", len(quiet), spread(quiet), ttl-margin)
	t.Logf("to the next grant after a fault: %s; every scope again after the last one: %s", spread(recoveries(faults, grants)), recovered.Round(time.Millisecond))
	require.Empty(t, undecided, "linearizability was not decided")
	for _, v := range violations {
		t.Errorf("violation: %s", v)
	}
	require.NotEmpty(t, grants)
	require.NotZero(t, c.written.Load())
	for _, q := range quiet {
		require.LessOrEqual(t, q, ttl-margin+50*time.Millisecond, "a holder that was cut off wrote for longer than its budget")
	}
}

// silences is, for each node that could not reach an authority for longer than
// a ttl, how long after the cut the last byte of its holders came.
func silences(faults []happened, grants []history.Grant, writes []history.Write) []time.Duration {
	holder := map[string]string{}
	for _, g := range grants {
		holder[g.Lease] = g.Node
	}
	var out []time.Duration
	for _, f := range faults {
		if !strings.HasPrefix(f.Kind, "drop-") || f.Ended-f.Began < ttl {
			continue
		}
		node := fmt.Sprintf("node-%c", 'a'+f.Target%sidecars)
		last := time.Duration(-1)
		for _, w := range writes {
			if holder[w.Lease] == node && w.LastByte > f.Began && w.LastByte < f.Ended {
				last = max(last, w.LastByte-f.Began)
			}
		}
		if last >= 0 {
			out = append(out, last)
		}
	}
	return out
}

// recoveries is, for each fault of the store or the authorities, how long
// after its end the next grant came that was asked for after it.
func recoveries(faults []happened, grants []history.Grant) []time.Duration {
	var out []time.Duration
	for _, f := range faults {
		if f.Ended-f.Began < 100*time.Millisecond {
			continue
		}
		for _, g := range grants {
			if g.Returned > f.Ended {
				out = append(out, g.Returned-f.Ended)
				break
			}
		}
	}
	return out
}

func spread(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	at := func(q int) time.Duration { return all[min(len(all)*q/100, len(all)-1)].Round(time.Millisecond) }
	return fmt.Sprintf("p50 %s, p99 %s, max %s", at(50), at(99), at(100))
}

// inOwnNamespaces runs the test again in a process with a network and mounts
// of its own, and reports whether this is that process.
func inOwnNamespaces(t *testing.T) bool {
	const mark = "FORGEYARD_OWN_NAMESPACES"
	if os.Getenv(mark) != "" {
		out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.NoError(t, syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
		return true
	}
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("network namespaces need root, and CI=true makes this test required")
		}
		t.Skip("network namespaces need root")
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=60m")
	cmd.Env = append(os.Environ(), mark+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	require.NoError(t, cmd.Run())
	return false
}
