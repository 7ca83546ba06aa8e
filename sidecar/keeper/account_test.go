package keeper_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/sidecar/keeper"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

const newSession = "01JF8Z6M00000000000SESSI02"

// began journals an effect under a lease.
func (b *bench) began(l lease.Lease, id string) effect.Effect {
	b.t.Helper()
	e := effect.Effect{ID: id, Lease: l.ID, Scope: l.Scope, Epoch: l.Epoch, Provider: "store", Operation: "PUT /plan", StartedAt: b.clock.Now()}
	require.NoError(b.t, b.journal.Begin(b.t.Context(), e))
	return e
}

// expired is l as the authority has it after it took it away.
func expired(l lease.Lease) lease.Lease {
	l.State, l.EndReason, l.Unsettled = lease.Ended, lease.Expired, true
	return l
}

// returned is a node whose former session is over: it registers anew and is
// told what it owes.
func (b *bench) returned(owed ...lease.Lease) {
	b.t.Helper()
	require.NoError(b.t, b.keeper.Registered(b.t.Context(), keeper.Registered{
		Session: newSession, AuthorityID: "A", LockDelay: b.budget.LockDelay, SentAt: b.clock.Boot(),
	}))
	b.version = 10
	b.owes(owed...)
}

// owes answers the next fetch with nothing but what the node owes.
func (b *bench) owes(owed ...lease.Lease) {
	b.t.Helper()
	b.link.next(fetches).set(keeper.Set{Version: b.at(), Remaining: b.budget.TTL, Owed: owed})
	b.eventually(func() bool { return b.keeper.Status().Version == b.at() }, "the set was not applied")
}

// settled is the authority's answer to an account.
func (b *bench) settled(c *call, l lease.Lease) {
	l.Unsettled = c.command.Account.Unknown > 0
	c.answer(lease.Answer{Code: lease.Done, Lease: &l, Epoch: l.Epoch})
}

// beats answers every heartbeat until one confirms this moment.
func (b *bench) beats() {
	b.t.Helper()
	b.eventually(func() bool {
		if b.link.asked(beats) > 0 {
			b.beat()
		}
		return b.keeper.Status().ConfirmedAgo == 0
	}, "the session was not confirmed")
}

// interval lets one pass, with a heartbeat that is confirmed.
func (b *bench) interval() {
	b.t.Helper()
	b.advance(b.budget.Interval)
	b.beats()
}

// TestI6_AReturningNodeAccountsForWhatItKnows over a restart, in a new session.
func TestI6_AReturningNodeAccountsForWhatItKnows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, l := b.own(b.request())
	e := b.began(l, "01JF8Z6M0000000000000EFF01")
	b.journal.Settle(e.ID, effect.Succeeded, "", 201)
	b.stored()
	b.restart()
	b.returned(expired(l))
	c := b.link.next(accounts)
	require.Equal(t, newSession, c.command.Session)
	require.Equal(t, l.ID, c.command.Account.Lease)
	require.EqualValues(t, l.Epoch, c.command.Account.Epoch)
	require.Zero(t, c.command.Account.Unknown)
	b.settled(c, l)
	b.interval()
	b.eventually(func() bool { covers, err := b.cache.Covers(); return err == nil && len(covers) == 0 }, "it was not forgotten")
	b.restart()
	b.returned(expired(l))
	b.turn()
	require.Zero(t, b.link.asked(accounts), "once settled nothing is known of it any more")
}

// TestI6_AnAccountNamesWhatIsUnknown, and comes again when that changes.
func TestI6_AnAccountNamesWhatIsUnknown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, l := b.own(b.request())
	e := b.began(l, "01JF8Z6M0000000000000EFF01")
	b.stored()
	b.restart()
	b.returned(expired(l))
	c := b.link.next(accounts)
	require.Equal(t, 1, c.command.Account.Unknown)
	require.Len(t, c.command.Account.Left, 1)
	require.Equal(t, e.ID, c.command.Account.Left[0].ID)
	require.Equal(t, effect.Unknown, c.command.Account.Left[0].State)
	b.settled(c, l)
	b.interval()
	require.Zero(t, b.link.asked(accounts), "nothing is new")
	b.journal.Reconcile(e.ID, effect.Failed, "no such plan")
	b.interval()
	require.Zero(t, b.link.next(accounts).command.Account.Unknown)
}

// TestI7_ANodeLearnsWhatSomebodyElseSaw: the effect was resolved elsewhere, and
// its key is answered from here.
func TestI7_ANodeLearnsWhatSomebodyElseSaw(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, l := b.own(b.request())
	e := b.began(l, "01JF8Z6M0000000000000EFF01")
	b.stored()
	b.restart()
	b.returned(expired(l))
	b.settled(b.link.next(accounts), l)
	b.interval()
	b.advance(b.budget.UncertainAfter)
	b.owes() // somebody has reopened the scope
	c := b.link.next(learns)
	require.Equal(t, l.Scope.String(), c.learn)
	other := e
	other.ID, other.Lease = "01JF8Z6M0000000000000EFF02", "of another node"
	seen := &lease.Observation{Outcome: effect.Failed, Seen: "no such plan"}
	c.reply <- outcome{found: keeper.Evidence{Effects: []lease.Evidence{{Effect: other, Observation: seen}, {Effect: e, Observation: seen}}}}
	b.eventually(func() bool { known, _ := b.journal.Get(e.ID); return known.Observed == effect.Failed }, "it was not learned")
	b.eventually(func() bool { covers, err := b.cache.Covers(); return err == nil && len(covers) == 0 }, "nothing is left to account for")
}

// TestI6_AnAccountThatWasRefusedComesAgain with a later heartbeat.
func TestI6_AnAccountThatWasRefusedComesAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, l := b.own(b.request())
	b.stored()
	b.restart()
	b.returned(expired(l))
	b.link.next(accounts).answer(lease.Answer{Code: lease.Rejected, Reason: lease.SessionExpired})
	b.interval()
	b.settled(b.link.next(accounts), l)
}

// TestI6_AnotherJournalAccountsForNothing: it must not say 0.
func TestI6_AnotherJournalAccountsForNothing(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(t *testing.T, path string){
		"new":       func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
		"set aside": func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, []byte("damaged"), 0o600)) },
		"a copy that was put back": func(t *testing.T, path string) {
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path+".copy", raw, 0o600))
			require.NoError(t, os.Rename(path+".copy", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			_, l := b.own(b.request())
			b.stored()
			b.stop()
			replace(t, filepath.Join(b.dir, "journal.db"))
			b.start()
			b.returned(expired(l))
			b.interval()
			require.Zero(t, b.link.asked(accounts))
		})
	}
}

// TestI6_AReleaseUnderAnotherJournalIsPartial: what its former journal knew is
// lost, and the authority is told so.
func TestI6_AReleaseUnderAnotherJournalIsPartial(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, l := b.own(b.request())
	b.stored()
	b.stop()
	require.NoError(t, os.Remove(filepath.Join(b.dir, "journal.db")))
	b.start()
	b.register(true)
	l.State = lease.Live
	b.answerSet(l)
	b.until(key, ownership.Owned)
	b.releasing(key)
	r := b.link.next(releases).command.Release
	require.Equal(t, l.ID, r.Lease)
	require.True(t, r.Partial)
}

// TestAnUpgradeFromAVersionWithoutCoversReleasesCleanly: its holds are in the
// journal of the same age.
func TestAnUpgradeFromAVersionWithoutCoversReleasesCleanly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, l := b.own(b.request())
	b.stored()
	b.stop()
	b.drop("cache.db", "covers")
	b.drop("journal.db", "meta")
	b.start()
	b.register(true)
	l.State = lease.Live
	b.answerSet(l)
	b.until(key, ownership.Owned)
	b.releasing(key)
	require.False(t, b.link.next(releases).command.Release.Partial)
}

// drop takes a bucket that older versions did not have out of a file.
func (b *bench) drop(file, bucket string) {
	b.t.Helper()
	db, err := bbolt.Open(filepath.Join(b.dir, file), 0o600, nil)
	require.NoError(b.t, err)
	require.NoError(b.t, db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(bucket)) }))
	require.NoError(b.t, db.Close())
}

// TestI6_NothingIsAccountedForWhileACallRuns, although the lease is over.
func TestI6_NothingIsAccountedForWhileACallRuns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, l := b.own(b.request())
	permit, refused := b.gate.Admit(key)
	require.Nil(t, refused)
	e := b.began(l, "01JF8Z6M0000000000000EFF01")
	b.advance(b.budget.HardDeadline())
	b.until(key, ownership.Lost)
	b.returned(expired(l))
	b.beats() // those of the former session too
	require.Zero(t, b.link.asked(accounts), "it is in flight")
	b.journal.Settle(e.ID, effect.Unknown, "no answer: cut", 0)
	permit.Done()
	b.advance(b.budget.Interval)
	b.beats()
	require.Equal(t, 1, b.link.next(accounts).command.Account.Unknown)
}

// TestI6_ALeaseThatEndedLaterIsFoundByALook: under a former session it changes
// nothing in the set of the present one.
func TestI6_ALeaseThatEndedLaterIsFoundByALook(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, l := b.own(b.request())
	b.stored()
	b.restart()
	b.returned() // not ended yet
	b.beat()
	b.confirmed()
	b.advance(b.budget.UncertainAfter)
	b.owes(expired(l))
	b.settled(b.link.next(accounts), l)
}

// TestI6_AReleaseThatCameTooLateIsFollowedByAnAccount: the authority had ended
// the lease before.
func TestI6_AReleaseThatCameTooLateIsFollowedByAnAccount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, l := b.own(b.request())
	b.releasing(key)
	b.link.next(releases).answer(lease.Answer{Code: lease.AlreadyEnded, Version: b.at()})
	b.owes(expired(l))
	b.settled(b.link.next(accounts), l)
}

// TestI6_HeartbeatsCarryWhatChanged until it is taken.
func TestI6_HeartbeatsCarryWhatChanged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, l := b.own(b.request())
	e := b.began(l, "01JF8Z6M0000000000000EFF01")
	b.advance(b.budget.Interval)
	c := b.link.next(beats)
	require.Equal(t, effect.Started, only(t, c.beat.Effects).State)
	c.reply <- outcome{answer: b.renewed(), untaken: true}
	b.confirmed()
	b.advance(b.budget.Interval)
	c = b.link.next(beats)
	require.Equal(t, e.ID, only(t, c.beat.Effects).ID)
	b.journal.Settle(e.ID, effect.Succeeded, "", 201)
	c.answer(b.renewed())
	b.confirmed()
	b.advance(b.budget.Interval)
	c = b.link.next(beats)
	require.Equal(t, effect.Succeeded, only(t, c.beat.Effects).State)
	c.answer(b.renewed())
	b.confirmed()
	b.advance(b.budget.Interval)
	require.Empty(t, b.link.next(beats).beat.Effects)
}

func only(t *testing.T, effects []effect.Effect) effect.Effect {
	t.Helper()
	require.Len(t, effects, 1)
	return effects[0]
}
