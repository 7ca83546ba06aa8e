package fold_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

var (
	now    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	sealer = fold.Sealer{Authority: "authority-1", Key: epoch.ReceiptKey{1, 2, 3}}
	policy = lease.Policy{
		Requirement: lease.Exclusive, MinTTL: 2 * time.Second, MaxTTL: time.Minute,
		LockDelay: time.Second, ClaimTimeout: 10 * time.Second, OnUncleanEnd: lease.FreeAfter,
	}
	facts = lease.Facts{Now: now, Generation: 3, Pause: lease.NoPause(), MaxTTL: time.Minute, LockDelay: time.Second}
)

func environment(t *testing.T, name string) scope.Scope {
	t.Helper()
	s, err := scope.New("acme", scope.Environment, name)
	require.NoError(t, err)
	return s
}

func session(id string) lease.Session {
	return lease.Session{
		ID: id, Node: "node-" + id, Nonce: "nonce-" + id, TTL: 15 * time.Second,
		Registered: now.Add(-time.Minute), ExpiresAt: now.Add(10 * time.Second), SetVersion: 1,
	}
}

func loaded(sessions ...lease.Session) store.Loaded {
	l := store.Loaded{
		Now: now, Generation: 3, Replayed: map[int]store.Stored{},
		Scopes: map[scope.ID]lease.Record{}, Leases: map[scope.ID][]lease.Lease{}, Sessions: map[string]lease.Session{},
	}
	for _, s := range sessions {
		l.Sessions[s.ID] = s
	}
	return l
}

func command(id string, a fold.Action) fold.Command {
	return fold.Command{Command: store.Command{ID: id, Principal: "p", Digest: [32]byte{1}}, Action: a}
}

func acquire(id string, s scope.Scope, session string) fold.Command {
	return command(id, fold.Acquire(s, policy, lease.AcquireRequest{
		Session: session, Nonce: "nonce-" + session, LeaseID: "lease-" + id,
		Holder: lease.Holder{Kind: lease.HolderController, ID: id}, Purpose: lease.Work,
	}))
}

func release(id string, s scope.Scope, session, leaseID string, e epoch.Epoch) fold.Command {
	return command(id, fold.Release(s, policy, lease.ReleaseRequest{
		Ref: lease.Ref{Session: session, Nonce: "nonce-" + session, Lease: leaseID, Epoch: e}, Why: lease.Released,
	}))
}

func run(t *testing.T, l store.Loaded, cmds ...fold.Command) (store.Changes, fold.Outcome) {
	t.Helper()
	changes, out, err := sealer.Run(facts, cmds, l)
	require.NoError(t, err)
	require.Len(t, out.Results, len(cmds))
	return changes, out
}

func TestFC96_TwoGrantsOfOneBatchRaiseTheEpochTwiceInOneRow(t *testing.T) {
	t.Parallel()
	prod := environment(t, "prod")
	first, err := epoch.Next(0, 3)
	require.NoError(t, err)
	changes, out := run(t, loaded(session("a"), session("b")),
		acquire("1", prod, "a"),
		acquire("2", prod, "b"),
		release("3", prod, "a", "lease-1", first),
		acquire("4", prod, "b"),
	)
	require.Equal(t, lease.Acquired, out.Results[0].Answer.Code)
	require.Equal(t, lease.Busy, out.Results[1].Answer.Code)
	require.Equal(t, "lease-1", out.Results[1].Answer.Holder.Lease)
	require.Equal(t, lease.Done, out.Results[2].Answer.Code)
	require.Equal(t, lease.Acquired, out.Results[3].Answer.Code)
	require.Equal(t, first, out.Results[0].Answer.Epoch)
	require.Equal(t, first+1, out.Results[3].Answer.Epoch)

	require.Len(t, changes.Scopes, 1, "one row per scope")
	require.Equal(t, first+1, changes.Scopes[0].Epoch)
	require.Len(t, changes.Leases, 2, "one row per lease")
	require.Equal(t, lease.Ended, changes.Leases[0].State)
	require.Equal(t, lease.Granted, changes.Leases[1].State)
	require.Len(t, changes.Sessions, 2, "one row per session")
	require.Equal(t, uint64(3), changes.Sessions[0].SetVersion, "granted and ended")
	require.Len(t, changes.Results, 4)
	require.Len(t, out.Ended, 1)
}

func TestGrantCarriesItsReceipt(t *testing.T) {
	t.Parallel()
	prod := environment(t, "prod")
	changes, out := run(t, loaded(session("a")), acquire("1", prod, "a"))
	a := out.Results[0].Answer
	require.True(t, sealer.Key.Verify(a.Receipt, "authority-1", prod.ID(), a.Epoch, "node-a"))
	var stored lease.Answer
	require.NoError(t, json.Unmarshal(changes.Results[0], &stored))
	require.Equal(t, a.Receipt, stored.Receipt, "a replayed grant carries it too")
}

func TestI7_ReplayedCommandChangesNothing(t *testing.T) {
	t.Parallel()
	prod, test := environment(t, "prod"), environment(t, "test")
	_, before := run(t, loaded(session("a")), acquire("1", prod, "a"))
	text, err := json.Marshal(before.Results[0].Answer)
	require.NoError(t, err)

	l := loaded(session("a"), session("b"))
	l.Replayed[1] = store.Stored{Digest: [32]byte{1}, Result: text}
	l.Replayed[2] = store.Stored{Digest: [32]byte{2}, Result: text}
	changes, out := run(t, l, acquire("0", test, "b"), acquire("1", prod, "a"), acquire("2", prod, "a"))
	require.True(t, out.Results[1].Replayed)
	require.Equal(t, before.Results[0].Answer.Epoch, out.Results[1].Answer.Epoch)
	require.Zero(t, out.Results[1].Answer.Remaining)
	require.Equal(t, lease.KeyConflict, out.Results[2].Answer.Reason)
	require.Len(t, changes.Scopes, 1)
	require.Equal(t, test, changes.Scopes[0].Scope)
	require.Contains(t, changes.Results, 0)
	require.Len(t, changes.Results, 1, "the index counts commands with ids only, replayed ones too")
}

func TestCommandsWithoutIDDoNotShiftTheResults(t *testing.T) {
	t.Parallel()
	prod, test := environment(t, "prod"), environment(t, "test")
	cmds := []fold.Command{
		{Action: fold.Settle(test, policy)},
		acquire("1", prod, "a"),
	}
	changes, out := run(t, loaded(session("a")), cmds...)
	require.Equal(t, lease.Done, out.Results[0].Answer.Code)
	require.Contains(t, changes.Results, 0)
	needs := fold.Needs(cmds)
	require.Len(t, needs.Commands, 1)
	require.Equal(t, []scope.Scope{test, prod}, needs.Scopes)
	require.Equal(t, []string{"a"}, needs.Sessions)
}

func TestRefusalHarmsNobodyElse(t *testing.T) {
	t.Parallel()
	prod, test := environment(t, "prod"), environment(t, "test")
	changes, out := run(t, loaded(session("a")), acquire("1", prod, "nobody"), acquire("2", test, "a"))
	require.Equal(t, lease.SessionUnknown, out.Results[0].Answer.Reason)
	require.Equal(t, lease.Acquired, out.Results[1].Answer.Code)
	require.Len(t, changes.Scopes, 1)
	require.Len(t, changes.Results, 2, "a refusal is stored like any other answer")
}

func TestI2_ScopeThatContradictsItselfGoesToQuarantine(t *testing.T) {
	t.Parallel()
	prod, test := environment(t, "prod"), environment(t, "test")
	l := loaded(session("a"))
	// A record that fell behind its lease: put together from two histories.
	l.Scopes[prod.ID()] = lease.Record{Scope: prod, State: lease.Open, Epoch: 5}
	l.Leases[prod.ID()] = []lease.Lease{{ID: "old", Scope: prod, Exclusive: true, Session: "a", Node: "node-a", Epoch: 9, State: lease.Live}}
	changes, out := run(t, l, acquire("1", prod, "a"), acquire("2", test, "a"))
	require.Equal(t, lease.ScopeQuarantined, out.Results[0].Answer.Reason)
	require.Error(t, out.Results[0].Defect, "it alarms")
	require.Equal(t, lease.Acquired, out.Results[1].Answer.Code, "nobody else is harmed")
	require.Len(t, changes.Scopes, 2)
	require.Equal(t, lease.Record{Scope: prod, State: lease.Quarantined, Epoch: 9, Reason: changes.Scopes[0].Reason, Forgotten: true}, changes.Scopes[0])
	require.Equal(t, test, changes.Scopes[1].Scope)
	require.Equal(t, lease.Draining, changes.Leases[0].State)
}

func TestMovedNamesSessionsThatSomebodyElseChanged(t *testing.T) {
	t.Parallel()
	prod := environment(t, "prod")
	l := loaded(session("a"))
	l.Scopes[prod.ID()] = lease.Record{Scope: prod, State: lease.Open, Epoch: 9}
	l.Leases[prod.ID()] = []lease.Lease{{ID: "x", Scope: prod, Exclusive: true, Session: "a", Node: "node-a", Epoch: 9, State: lease.Live}}
	force := command("1", fold.ForceRelease(prod, policy, lease.ForceReleaseRequest{Epoch: 9, Actor: "person:eve", Reason: "stuck"}))
	_, out := run(t, l, force)
	require.Equal(t, lease.IsDraining, out.Results[0].Answer.Code)
	require.Equal(t, []fold.Moved{{Session: "a", Node: "node-a", Version: lease.SetVersion{Generation: 3, Version: 2}}}, out.Moved)

	_, own := run(t, l, release("2", prod, "a", "x", 9))
	require.Empty(t, own.Moved, "its own release is no news to a session")
}

func TestFC98_ReceiptAheadOfTheStoreAbortsTheBatch(t *testing.T) {
	t.Parallel()
	prod := environment(t, "prod")
	has := epoch.Epoch(3)<<epoch.CounterBits + 7
	l := loaded()
	l.Scopes[prod.ID()] = lease.Record{Scope: prod, State: lease.Open, Epoch: has}
	register := func(e epoch.Epoch) fold.Command {
		return command("1", fold.Register(lease.RegisterRequest{Session: "s", Node: "n", Nonce: "x", TTL: 15 * time.Second},
			[]fold.Witness{{Scope: prod, Policy: policy, Witness: lease.Witness{Epoch: e, Node: "n"}}}))
	}
	_, _, err := sealer.Run(facts, []fold.Command{register(has + 1)}, l)
	var ahead *fold.AheadError
	require.ErrorAs(t, err, &ahead)
	require.Equal(t, epoch.Generation(3), ahead.Witness)

	_, out := run(t, l, register(has))
	require.Equal(t, lease.Registered, out.Results[0].Answer.Code)

	l.Generation = 4
	_, out = run(t, l, register(has+1))
	require.Equal(t, lease.Registered, out.Results[0].Answer.Code, "after the raise it is no news")
}

func TestRegisterSeesASessionOpenedInTheSameBatch(t *testing.T) {
	t.Parallel()
	register := func(id, session, nonce string) fold.Command {
		return command(id, fold.Register(lease.RegisterRequest{Session: session, Node: "n", Nonce: nonce, TTL: 15 * time.Second}, nil))
	}
	changes, out := run(t, loaded(), register("1", "s1", "x"), register("2", "s2", "y"))
	require.Equal(t, lease.Registered, out.Results[0].Answer.Code)
	require.Equal(t, lease.Wait, out.Results[1].Answer.Code)
	require.Len(t, changes.Sessions, 1)
}

func TestI1_GrantUnderSomebodyElsesLeaseIDIsRefused(t *testing.T) {
	t.Parallel()
	prod, test := environment(t, "prod"), environment(t, "test")
	l := loaded(session("a"), session("b"))
	l.Scopes[prod.ID()] = lease.Record{Scope: prod, State: lease.Open, Epoch: 9}
	l.Leases[prod.ID()] = []lease.Lease{{ID: "lease-2", Scope: prod, Exclusive: true, Session: "a", Node: "node-a", Epoch: 9, State: lease.Live}}
	changes, out := run(t, l, acquire("1", prod, "b"), acquire("2", test, "b"))
	require.Equal(t, lease.Busy, out.Results[0].Answer.Code)
	require.Equal(t, lease.InvalidRequest, out.Results[1].Answer.Reason)
	require.Contains(t, out.Results[1].Answer.Detail, "lease-2")
	require.Empty(t, changes.Leases)
	require.Empty(t, changes.Scopes)
}
