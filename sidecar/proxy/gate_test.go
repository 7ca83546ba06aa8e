package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/journal"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

func journalAll() journal.Filter { return journal.Filter{} }

func TestFC60_AStaleHolderIsRefusedWithTheSuccessor(t *testing.T) {
	t.Parallel()
	up := record(t, nil)
	b := setup(t, up.addr, options{})
	next := &lease.Summary{Scope: b.hold.Term.Scope, Holder: lease.Holder{Kind: lease.HolderDeployment, ID: "plan-2"}, Node: "n2", Epoch: 43}
	for _, tc := range []struct {
		change func(*ownership.Term)
		code   string
		status int
	}{
		{func(x *ownership.Term) { x.State, x.Reason, x.Successor = ownership.Lost, ownership.Superseded, next }, "superseded", 412},
		{func(x *ownership.Term) { x.State, x.Reason = ownership.Lost, ownership.Revoked }, "lost", 412},
		{func(x *ownership.Term) { x.Deadline = clock.System().Boot() }, "lost", 412},
		{func(x *ownership.Term) { x.UncertainAt = clock.System().Boot() }, "uncertain", 423},
		{func(x *ownership.Term) { x.State, x.Reason = ownership.Uncertain, ownership.ClockEvent }, "uncertain", 423},
		{func(x *ownership.Term) { x.State = ownership.Releasing }, "no-hold", 412},
	} {
		b.publish(tc.change)
		resp, text := b.send("PUT", "/plans/prod", "plan 1")
		b.refused(resp, text, tc.code)
		require.Equal(t, tc.status, resp.StatusCode)
		require.Contains(t, text, `"scope":"acme/environment:prod"`)
		require.Contains(t, text, `"epoch":"42"`)
		if tc.code == "superseded" {
			require.Contains(t, text, `"holder":{"kind":"deployment","id":"plan-2","node":"n2","epoch":"43"}`)
		}
	}
	up.nothing(t)
	refusals := b.journal.List(journal.Filter{State: effect.Failed})
	require.Len(t, refusals, 6, "each refusal leaves a trace")
}

// TestFC61_EveryMutationPassesTheSameGate: clean-up verbs are fenced like
// writes, the list before them is not.
func TestFC61_EveryMutationPassesTheSameGate(t *testing.T) {
	t.Parallel()
	up := record(t, nil)
	b := setup(t, up.addr, options{})
	b.publish(func(x *ownership.Term) { x.State, x.Reason = ownership.Lost, ownership.Expired })
	resp, _ := b.send("GET", "/plans", "")
	require.Equal(t, 200, resp.StatusCode, "the list passes")
	require.Equal(t, "GET", (<-up.got).method)
	for _, method := range []string{"DELETE", "PATCH", "PUT", "POST", "PROPPATCH", "MKCOL", "MOVE", "FROBNICATE"} {
		resp, text := b.send(method, "/plans/old", "")
		b.refused(resp, text, "lost")
	}
	up.nothing(t)
}

// TestI4_NothingLeavesBeforeTheIntentIsDurable holds the disk, and breaks it.
func TestI4_NothingLeavesBeforeTheIntentIsDurable(t *testing.T) {
	t.Parallel()
	up := record(t, nil)
	entered, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	fail := false
	b := setup(t, up.addr, options{commit: func(commit func() error) error {
		once.Do(func() { close(entered); <-leave })
		if fail {
			return errors.New("no space left on device")
		}
		return commit()
	}})
	answered := make(chan *http.Response, 1)
	go func() {
		resp, _ := b.send("PUT", "/x", "one")
		answered <- resp
	}()
	<-entered
	up.nothing(t)
	close(leave)
	require.Equal(t, 200, (<-answered).StatusCode)
	require.Equal(t, "one", (<-up.got).body)

	fail = true
	resp, text := b.send("PUT", "/x", "two")
	b.refused(resp, text, "uncertain")
	require.Equal(t, 423, resp.StatusCode)
	up.nothing(t)
}

// TestTrap30_TheCheckAfterTheFsyncCounts: ownership is lost while the disk
// writes.
func TestTrap30_TheCheckAfterTheFsyncCounts(t *testing.T) {
	t.Parallel()
	up := record(t, nil)
	var b *bench
	b = setup(t, up.addr, options{commit: func(commit func() error) error {
		b.publish(func(x *ownership.Term) { x.State, x.Reason = ownership.Lost, ownership.Expired })
		return commit()
	}})
	resp, text := b.send("PUT", "/x", "late")
	b.refused(resp, text, "lost")
	up.nothing(t)
	e := b.settled()
	require.Equal(t, effect.Failed, e.State)
	require.Contains(t, e.Reason, "not-sent")
}

// TestFC64_ACallerThatLeavesCancelsNothing: the effect goes on to its outcome.
func TestFC64_ACallerThatLeavesCancelsNothing(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	up := record(t, func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		select {
		case <-leave:
			w.WriteHeader(http.StatusCreated)
		case <-r.Context().Done():
			t.Error("the provider's call was cancelled")
		}
	})
	b := setup(t, up.addr, options{})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		req, _ := http.NewRequestWithContext(ctx, "POST", b.url("/x"), strings.NewReader("body"))
		req.Header.Set("Idempotency-Key", "k")
		if resp, err := b.client.Do(req); err == nil {
			resp.Body.Close()
			t.Error("the caller got an answer")
		}
	}()
	<-entered
	cancel()
	<-gone
	resp, text := b.send("POST", "/x", "body", "Idempotency-Key", "k")
	b.refused(resp, text, "effect-running")
	close(leave)
	require.Equal(t, effect.Succeeded, b.settled().State)
	<-b.gate.Idle(b.hold.Term.Key)
	resp, text = b.send("POST", "/x", "body", "Idempotency-Key", "k")
	require.Equal(t, http.StatusCreated, resp.StatusCode, "the caller's retry finds the stored outcome: %s", text)
	require.Equal(t, "true", resp.Header.Get("Idempotent-Replayed"))
	require.Len(t, up.got, 1, "one receipt")
}

// TestFC102_NothingIsDeliveredAfterTheCut: the kernel holds megabytes that the
// provider has not read; after the cut it must not get them.
func TestFC102_NothingIsDeliveredAfterTheCut(t *testing.T) {
	t.Parallel()
	accepted := make(chan *net.TCPConn, 1)
	up := listen(t, func(_ int64, c *net.TCPConn) { accepted <- c })
	b := setup(t, up.addr, options{})
	body := strings.Repeat("x", 8<<20)
	done := make(chan struct{})
	go func() {
		defer close(done)
		req, _ := http.NewRequestWithContext(t.Context(), "PUT", b.url("/big"), strings.NewReader(body))
		resp, err := b.client.Do(req)
		if err != nil {
			return
		}
		text, _ := io.ReadAll(resp.Body)
		b.refused(resp, string(text), "outcome-unknown")
	}()
	c := <-accepted
	head := make([]byte, 64<<10)
	_, err := io.ReadFull(c, head) // it reads a little: the rest waits in buffers of the kernels
	require.NoError(t, err)
	b.publish(func(x *ownership.Term) { x.State, x.Reason = ownership.Lost, ownership.Expired })
	b.gate.Cut(b.hold.Term.Key)
	<-done
	rest, err := io.Copy(io.Discard, c)
	require.Error(t, err, "the connection was reset, not closed in order")
	require.Less(t, rest, int64(len(body)), "the rest of the body was delivered after the cut")
	t.Logf("%d of %d bytes had reached the provider's kernel when the connection was cut", rest+int64(len(head)), len(body))
	require.Equal(t, effect.Unknown, b.settled().State)
	<-b.gate.Idle(b.hold.Term.Key)
}

// TestFC65_AStreamingAnswerEndsWithTheHold: what is in flight is cut, and the
// caller sees that the answer is not whole.
func TestFC65_AStreamingAnswerEndsWithTheHold(t *testing.T) {
	t.Parallel()
	up := listen(t, func(_ int64, c *net.TCPConn) {
		http.ReadRequest(bufio.NewReader(c))
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
	})
	b := setup(t, up.addr, options{})
	req, err := http.NewRequestWithContext(t.Context(), "POST", b.url("/stream"), nil)
	require.NoError(t, err)
	resp, err := b.client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	first := make([]byte, 5)
	_, err = io.ReadFull(resp.Body, first)
	require.NoError(t, err)
	b.gate.Cut(b.hold.Term.Key)
	_, err = io.ReadAll(resp.Body)
	require.Error(t, err)
	<-b.gate.Idle(b.hold.Term.Key)
	require.Equal(t, effect.Succeeded, b.settled().State, "its head was answered")
}

// TestACallWithoutAnAnswerEndsAtItsLimit: a provider that never answers.
func TestACallWithoutAnAnswerEndsAtItsLimit(t *testing.T) {
	t.Parallel()
	up := listen(t, func(_ int64, c *net.TCPConn) { io.Copy(io.Discard, c) })
	b := setup(t, up.addr, options{limit: 200 * time.Millisecond})
	resp, text := b.send("POST", "/x", "body")
	b.refused(resp, text, "outcome-unknown")
	require.Contains(t, text, "timeout")
	require.Equal(t, effect.Unknown, b.settled().State)
}
