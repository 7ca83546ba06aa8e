package proxy_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// perEffect makes the scope of the hold demand confirmations.
func perEffect(t *ownership.Term) { t.Confirm = true }

func TestI4_NothingLeavesThatTheAuthorityDidNotConfirm(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(context.Context) error{
		"refused":    func(context.Context) error { return errors.New("the lease is not live") },
		"unanswered": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := record(t, nil)
			b := setup(t, up.addr, options{confirm: func(ctx context.Context, _ ownership.Term, _ effect.Effect) error { return answer(ctx) }})
			b.publish(perEffect)
			resp, text := b.send("PUT", "/plans/prod", "plan 1", "Idempotency-Key", "k1")
			b.refused(resp, text, "uncertain")
			require.Equal(t, 423, resp.StatusCode)
			up.nothing(t)
			e := b.settled()
			require.Equal(t, effect.Failed, e.State)
			require.Equal(t, "not-sent: not confirmed", e.Reason)
			resp, text = b.send("PUT", "/plans/prod", "plan 1", "Idempotency-Key", "k1")
			b.refused(resp, text, "uncertain") // the key is free: it is asked for again
		})
	}
}

// The authority has the effect before the provider has a byte of it, and its
// intent is durable before both.
func TestI4_AConfirmedEffectIsKnownBeforeItLeaves(t *testing.T) {
	t.Parallel()
	up := record(t, nil)
	var b *bench
	var asked atomic.Int64
	b = setup(t, up.addr, options{confirm: func(_ context.Context, term ownership.Term, e effect.Effect) error {
		asked.Add(1)
		up.nothing(t)
		stored, ok := b.journal.Get(e.ID)
		if !ok || stored.State != effect.Started || term.Lease != e.Lease {
			return errors.New("the intent is not in the journal")
		}
		return nil
	}})
	b.publish(perEffect)
	resp, _ := b.send("PUT", "/plans/prod", "plan 1")
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, effect.Succeeded, b.settled().State)
	b.send("GET", "/plans/prod", "")
	require.EqualValues(t, 1, asked.Load(), "reads change nothing")
	b.publish(func(*ownership.Term) {})
	b.send("PUT", "/plans/prod", "plan 2")
	require.EqualValues(t, 1, asked.Load(), "no other scope pays for it")
}

// A process that is paused between the confirmation and the send finds its
// lease over, and nothing leaves.
func TestI4_APauseAfterTheConfirmationIsNoticedAtTheWrite(t *testing.T) {
	t.Parallel()
	up := record(t, nil)
	var b *bench
	b = setup(t, up.addr, options{confirm: func(context.Context, ownership.Term, effect.Effect) error {
		b.publish(func(t *ownership.Term) { t.Confirm, t.State, t.Reason = true, ownership.Lost, ownership.Expired })
		return nil
	}})
	b.publish(perEffect)
	resp, text := b.send("PUT", "/plans/prod", "plan 1")
	b.refused(resp, text, "lost")
	up.nothing(t)
	require.Equal(t, effect.Failed, b.settled().State)
}
