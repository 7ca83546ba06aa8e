package keeper_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/keeper"
)

// call is one request of the keeper; the test answers it, now, later or never.
type call struct {
	beat    *keeper.Beat
	known   []string
	command *keeper.Command
	confirm *keeper.Confirmation
	learn   string // the scope
	reply   chan outcome
}

type outcome struct {
	answer  lease.Answer
	set     keeper.Set
	found   keeper.Evidence
	err     error
	untaken bool
}

func (c *call) answer(a lease.Answer) { c.reply <- outcome{answer: a} }
func (c *call) set(s keeper.Set)      { c.reply <- outcome{set: s} }
func (c *call) fail(err error)        { c.reply <- outcome{err: err} }

// link is the uplink of which the test is the other end.
type link struct {
	t       *testing.T
	calls   chan *call
	backlog []*call // those that the test has not asked for yet
	// deaf makes calls go on after their context, like a request that was sent.
	deaf         atomic.Bool
	reregistered chan struct{}
}

var _ keeper.Link = (*link)(nil)

func newLink(t *testing.T) *link {
	return &link{t: t, calls: make(chan *call, 1024), reregistered: make(chan struct{}, 16)}
}

func (l *link) send(ctx context.Context, c *call) outcome {
	c.reply = make(chan outcome, 1)
	l.calls <- c
	ended := ctx.Done()
	if l.deaf.Load() {
		ended = nil
	}
	select {
	case o := <-c.reply:
		return o
	case <-ended:
		return outcome{err: keeper.ErrUnreachable}
	case <-l.t.Context().Done():
		return outcome{err: keeper.ErrUnreachable}
	}
}

func (l *link) Heartbeat(ctx context.Context, b keeper.Beat) (keeper.BeatAnswer, error) {
	o := l.send(ctx, &call{beat: &b})
	return keeper.BeatAnswer{Answer: o.answer, Taken: o.err == nil && !o.untaken}, o.err
}

func (l *link) Confirm(ctx context.Context, c keeper.Confirmation) (lease.Answer, error) {
	o := l.send(ctx, &call{confirm: &c})
	return o.answer, o.err
}

func (l *link) FetchSet(ctx context.Context, _, _ string, known []string) (keeper.Set, error) {
	o := l.send(ctx, &call{known: append([]string{}, known...)})
	return o.set, o.err
}

func (l *link) Do(ctx context.Context, c keeper.Command) (lease.Answer, error) {
	o := l.send(ctx, &call{command: &c})
	return o.answer, o.err
}

func (l *link) Evidence(ctx context.Context, scope string) (keeper.Evidence, error) {
	o := l.send(ctx, &call{learn: scope})
	return o.found, o.err
}

func (l *link) Reregister() { l.reregistered <- struct{}{} }

func beats(c *call) bool { return c.beat != nil }
func fetches(c *call) bool {
	return c.beat == nil && c.command == nil && c.confirm == nil && c.learn == ""
}
func learns(c *call) bool   { return c.learn != "" }
func acquires(c *call) bool { return c.command != nil && c.command.Acquire != nil }
func claims(c *call) bool   { return c.command != nil && c.command.Claim != nil }
func releases(c *call) bool { return c.command != nil && c.command.Release != nil }

func accounts(c *call) bool { return c.command != nil && c.command.Account != nil }

func closes(c *call) bool {
	return c.command != nil && c.command.Acquire == nil && c.command.Claim == nil && c.command.Release == nil &&
		c.command.Account == nil && c.command.Resolve == nil
}

// next waits for a request of one kind; others keep for later.
func (l *link) next(kind func(*call) bool) *call {
	l.t.Helper()
	for i, c := range l.backlog {
		if kind(c) {
			l.backlog = append(l.backlog[:i:i], l.backlog[i+1:]...)
			return c
		}
	}
	for {
		select {
		case c := <-l.calls:
			if kind(c) {
				return c
			}
			l.backlog = append(l.backlog, c)
		case <-time.After(patience):
			require.FailNow(l.t, "the keeper did not ask")
		}
	}
}

// asked counts what was asked and is not answered, without waiting.
func (l *link) asked(kind func(*call) bool) int {
	for more := true; more; {
		select {
		case c := <-l.calls:
			l.backlog = append(l.backlog, c)
		default:
			more = false
		}
	}
	n := 0
	for _, c := range l.backlog {
		if kind(c) {
			n++
		}
	}
	return n
}
