package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
)

// blocked makes a scope whose holder went silent, with one effect reported.
func blocked(t *testing.T) (*bench, epoch.Epoch) {
	t.Helper()
	b := setup(t)
	b.joins("a", "b")
	e := b.owns("a", "L1")
	b.passes(ttl + lockDelay)
	b.settle()
	require.Equal(t, lease.Blocked, b.c.Scope.State)
	require.Len(t, b.c.Unsettled, 1)
	b.c.Evidence = []lease.Evidence{{Effect: effect.Effect{ID: "E1", Lease: "L1", Epoch: e, State: effect.Started}, Node: "a"}}
	return b, e
}

func (b *bench) account(session, id string, e epoch.Epoch, unknown int, left ...effect.Effect) lease.Answer {
	b.t.Helper()
	return b.takes(lease.Account(b.facts, b.pol, b.c, lease.AccountRequest{
		Session: session, Nonce: b.c.Sessions[session].Nonce, Lease: id, Epoch: e,
		Quiescence: lease.Quiescence{Unknown: unknown, Left: left},
	}))
}

func (b *bench) claims(actor string) lease.Answer {
	b.t.Helper()
	return b.takes(lease.ReconcileByPerson(b.facts, b.pol, b.c, lease.ReconcileRequest{
		Actor: actor, LeaseID: "R-" + actor, Reason: "on call", For: lease.DefaultReconcileFor,
	}))
}

func (b *bench) resolve(r lease.ResolveRequest) lease.Answer {
	b.t.Helper()
	return b.takes(lease.Resolve(b.facts, b.pol, b.c, r))
}

func TestI6_ReturningNodeThatKnowsEverythingReopensTheScope(t *testing.T) {
	t.Parallel()
	b, e := blocked(t)
	b.beats("a", 0)
	require.Equal(t, lease.Done, b.account("a", "L1", e, 0).Code)
	require.Equal(t, lease.Open, b.c.Scope.State)
	require.Empty(t, b.c.Unsettled)
	require.Empty(t, b.c.Evidence, "a node that says every call was answered settles what it reported before")
	require.Equal(t, lease.AlreadyEnded, b.account("a", "L1", e, 0).Code, "a repeat changes nothing")
	b.beats("b", 0)
	require.Equal(t, lease.Acquired, b.acquire("b", "L2").Code)
}

func TestI6_ReturningNodeWithUnknownEffectsAddsThemToTheEvidence(t *testing.T) {
	t.Parallel()
	b, e := blocked(t)
	b.beats("a", 0)
	left := effect.Effect{ID: "E2", State: effect.Unknown}
	require.Equal(t, lease.Done, b.account("a", "L1", e, 1, left).Code)
	require.Equal(t, lease.Blocked, b.c.Scope.State)
	require.True(t, b.c.Unsettled[0].Accounted)
	require.Len(t, b.c.Evidence, 2)
	require.Equal(t, "L1", b.c.Evidence[0].Effect.Lease)
}

func TestI6_OnlyTheNodeItselfMayAccountForItsLease(t *testing.T) {
	t.Parallel()
	b, e := blocked(t)
	b.beats("b", 0)
	require.Equal(t, lease.AlreadyEnded, b.account("b", "L1", e, 0).Code)
	require.Equal(t, lease.AlreadyEnded, b.account("b", "L1", e+1, 0).Code)
	require.Equal(t, lease.Blocked, b.c.Scope.State)
}

func TestI6_PersonResolvesEveryEffectBeforeTheScopeReopens(t *testing.T) {
	t.Parallel()
	b, e := blocked(t)
	require.Equal(t, lease.NotReconciler, b.resolve(lease.ResolveRequest{Actor: "alice", Reopen: true, Seen: "fine"}).Reason)
	got := b.claims("alice")
	require.Equal(t, lease.Acquired, got.Code)
	require.Greater(t, got.Epoch, e, "a new epoch fences the old holder")
	require.Equal(t, lease.Busy, b.claims("bob").Code)
	require.Equal(t, lease.NotReconciler, b.resolve(lease.ResolveRequest{Actor: "bob", Reopen: true, Seen: "fine"}).Reason)

	early := b.resolve(lease.ResolveRequest{Actor: "alice", Reopen: true, Seen: "fine"})
	require.Equal(t, lease.Unresolved, early.Reason)
	require.Contains(t, early.Detail, "E1")
	for _, wrong := range []lease.Resolution{
		{Effect: "E9", Outcome: effect.Succeeded, Seen: "x"},
		{Effect: "E1", Outcome: effect.Unknown, Seen: "x"},
		{Effect: "E1", Outcome: effect.Failed, Seen: "  "},
	} {
		require.Equal(t, lease.InvalidRequest, b.resolve(lease.ResolveRequest{Actor: "alice", Resolutions: []lease.Resolution{wrong}}).Reason)
	}
	seen := []lease.Resolution{{Effect: "E1", Outcome: effect.Succeeded, Seen: "deployment 42 is complete"}}
	require.Equal(t, lease.InvalidRequest, b.resolve(lease.ResolveRequest{Actor: "alice", Resolutions: seen, Reopen: true}).Reason, "reopening says what was seen")
	require.Len(t, b.c.Evidence, 1, "nothing is half done")

	done := b.resolve(lease.ResolveRequest{Actor: "alice", Resolutions: seen, Reopen: true, Seen: "nothing else is there"})
	require.Equal(t, lease.Done, done.Code)
	require.Equal(t, lease.Open, b.c.Scope.State)
	require.Empty(t, b.c.Leases, "a person's lease ends with the reopening")
	require.Empty(t, b.c.Unsettled)
	b.beats("b", 0)
	require.Equal(t, lease.Acquired, b.acquire("b", "L2").Code)
}

func TestI6_ControllerReconcilesUnderALeaseOfItsOwn(t *testing.T) {
	t.Parallel()
	b, e := blocked(t)
	b.beats("b", 0)
	a := b.takes(lease.Acquire(b.facts, b.pol, b.c, lease.AcquireRequest{
		Session: "b", Nonce: "b", LeaseID: "R1", Holder: lease.Holder{Kind: lease.HolderController, ID: "janitor"}, Purpose: lease.Reconcile,
	}))
	require.Equal(t, lease.Acquired, a.Code)
	require.Greater(t, a.Epoch, e)
	ref := b.ref("b", "R1", a.Epoch)
	require.Equal(t, lease.NotReconciler, b.resolve(lease.ResolveRequest{Ref: ref, Reopen: true, Seen: "x"}).Reason, "not before the claim")
	b.claim("b", "R1", a.Epoch)
	done := b.resolve(lease.ResolveRequest{Ref: ref, Reopen: true, Seen: "inspected",
		Resolutions: []lease.Resolution{{Effect: "E1", Outcome: effect.Failed, Seen: "no such deployment"}}})
	require.Equal(t, lease.Done, done.Code)
	require.Equal(t, lease.Open, b.c.Scope.State)
	require.Len(t, b.c.Leases, 1, "the controller releases its own")
	require.Equal(t, lease.Done, b.release("b", "R1", a.Epoch, lease.Released, 0).Code)
	require.Equal(t, lease.Open, b.c.Scope.State)
}

func TestI6_ReconcilerThatDiesKeepsTheScopeBlocked(t *testing.T) {
	t.Parallel()
	b, _ := blocked(t)
	b.beats("b", 0)
	a := b.takes(lease.Acquire(b.facts, b.pol, b.c, lease.AcquireRequest{
		Session: "b", Nonce: "b", LeaseID: "R1", Holder: lease.Holder{Kind: lease.HolderController, ID: "janitor"}, Purpose: lease.Reconcile,
	}))
	b.claim("b", "R1", a.Epoch)
	b.passes(ttl + lockDelay)
	b.settle()
	require.Equal(t, lease.Blocked, b.c.Scope.State)
	require.Len(t, b.c.Unsettled, 2, "what it did is unknown too")
}

func TestReconcileIsRefusedWhereNothingIsToReconcile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.Equal(t, lease.NotBlocked, b.claims("alice").Reason)
}

func TestPersonsLeaseEndsByItsOwnLimitAndCleanly(t *testing.T) {
	t.Parallel()
	b, _ := blocked(t)
	b.claims("alice")
	b.passes(lease.DefaultReconcileFor)
	b.settle()
	require.Empty(t, b.c.Leases)
	require.Len(t, b.c.Unsettled, 1, "only what was left before")
	require.Equal(t, lease.Acquired, b.claims("bob").Code)
}

func TestFC98_CutOfHistoryDrainsEveryLeaseAndClosesReconcilingScopes(t *testing.T) {
	t.Parallel()
	for _, onEnd := range []lease.OnUncleanEnd{lease.ReconcileAfter, lease.FreeAfter} {
		b := setup(t)
		b.pol.OnUncleanEnd = onEnd
		b.joins("a", "b")
		old := b.owns("a", "L1")
		b.facts.Generation++
		b.facts.Pause = lease.Pause{Whole: true}
		b.takes(b.facts.Forget(b.pol, b.c, "the timeline changed"), lease.Answer{})
		require.Equal(t, lease.Draining, b.c.Leases[0].State)
		require.Equal(t, lease.HistoryWasCut, b.c.Leases[0].EndReason)
		require.NotEqual(t, lease.Acquired, b.acquire("b", "L2").Code)
		require.Equal(t, onEnd == lease.ReconcileAfter, b.c.Scope.State == lease.Blocked)

		b.pauses(maxTTL + lockDelay)
		b.beats("a", 0)
		b.beats("b", 0)
		b.settle()
		require.Empty(t, b.c.Leases)
		b.account("a", "L1", old, 0)
		if onEnd == lease.ReconcileAfter {
			require.Equal(t, lease.Blocked, b.c.Scope.State, "a holder that no record names may have acted: a node's word does not reopen it")
			require.Equal(t, lease.Acquired, b.claims("alice").Code)
			require.Equal(t, lease.Done, b.resolve(lease.ResolveRequest{Actor: "alice", Reopen: true, Seen: "looked"}).Code)
			b.beats("b", 0)
		}
		fresh := b.acquire("b", "L3")
		require.Equal(t, lease.Acquired, fresh.Code)
		require.Greater(t, fresh.Epoch, old)
		require.Equal(t, b.facts.Generation, fresh.Epoch.Generation())
	}
}

func TestForgetLeavesScopesThatWereNeverGranted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.takes(b.facts.Forget(b.pol, b.c, "cut"), lease.Answer{})
	require.Equal(t, lease.Open, b.c.Scope.State)
}

func TestFC108_ForgottenGrantClosesTheScopeAndItsEpochIsRemembered(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.joins("a")
	e := b.owns("a", "L1")
	b.takes(b.facts.Testify(b.pol, b.c, lease.Witness{Epoch: e, Node: "a"}), lease.Answer{})
	require.Equal(t, lease.Open, b.c.Scope.State, "what the store knows is no news")
	b.takes(b.facts.Testify(b.pol, b.c, lease.Witness{Epoch: e + 3, Node: "b"}), lease.Answer{})
	require.Equal(t, lease.Blocked, b.c.Scope.State)
	require.Equal(t, e+3, b.c.Scope.Epoch)
	require.True(t, b.c.Scope.Forgotten)
}

func TestI1_OneEpochForTwoNodesGoesToQuarantine(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.joins("a", "b")
	e := b.owns("a", "L1")
	b.takes(b.facts.Testify(b.pol, b.c, lease.Witness{Epoch: e, Node: "b"}), lease.Answer{})
	require.Equal(t, lease.Quarantined, b.c.Scope.State)
	require.Equal(t, lease.Draining, b.c.Leases[0].State)
	require.Equal(t, lease.DoublyOwned, b.c.Leases[0].EndReason)
	b.beats("a", 0)
	b.settle()
	require.Equal(t, lease.ScopeQuarantined, b.claims("alice").Reason, "not without the right to administer")
	got := b.takes(lease.ReconcileByPerson(b.facts, b.pol, b.c, lease.ReconcileRequest{
		Actor: "root", LeaseID: "R1", For: time.Hour, Quarantined: true,
	}))
	require.Equal(t, lease.Acquired, got.Code)
	require.Equal(t, lease.Done, b.resolve(lease.ResolveRequest{Actor: "root", Reopen: true, Seen: "one of them was a copy"}).Code)
	require.Equal(t, lease.Open, b.c.Scope.State)
}

func TestI2_RecordsOfTwoHistoriesGoToQuarantineAboveEveryEpoch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.joins("a")
	e := b.owns("a", "L1")
	require.Empty(t, b.c.Contradiction())
	b.c.Scope.Epoch -= 1
	why := b.c.Contradiction()
	require.Contains(t, why, "its scope only")
	b.takes(b.facts.Quarantine(b.pol, b.c, why), lease.Answer{})
	require.Equal(t, e, b.c.Scope.Epoch)
	require.Equal(t, lease.Quarantined, b.c.Scope.State)
	require.Empty(t, b.c.Contradiction(), "it is known")
}
