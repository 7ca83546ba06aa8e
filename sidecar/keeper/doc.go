// Package keeper owns every hold of a sidecar: it asks, claims, renews, loses
// and gives back.
//
// One goroutine feeds events to the machines of package ownership, persists
// what must survive, and then publishes an immutable View to the gate; readers
// take no lock and do no I/O (DESIGN 6.2). Calls to the authority and to the
// disk run beside it and come back as events; each carries the attempt that it
// belongs to, and a late one is ignored (FC-57).
//
// # Guarantees
//
// Each names the test that shows it.
//
//   - A heartbeat leaves only after a durable write; a disk that stalls loses
//     ownership by itself (TestI5_AStalledDiskLosesOwnershipByItself).
//   - A set version is reported as applied only after the gates of what it took
//     away were closed and its connections cut (DESIGN 3, Session 7b;
//     TestFC91_ANewerSetExtendsNothingAndIsReportedOnlyAfterTheCut).
//   - Old news and hints install nothing (TestFC92_OldNewsInstallsNothing), and
//     a set from before a grant does not end it
//     (TestASetFromBeforeTheGrantDoesNotEndIt).
//   - A release carries a quiescence receipt: published Releasing or Lost, then
//     nothing in flight, then everything settled or recorded as unknown
//     (TestFC103_TheReceiptLeavesWhenNothingIsInFlight,
//     TestAReleaseSaysWhatIsUnknown). A call that hangs delays it for
//     settle_timeout at most (TestAHangingCallKeepsAReleaseForTheSettleTimeout).
//   - A hold that is over does not come back, in whatever order answers come
//     (TestFC13_AReleaseAgainstDelayedRenewals).
//   - A hold is not forgotten before the authority has its release, or its
//     session is over (TestAReleaseIsOwedUntilTheAuthorityHasIt,
//     TestARefusedSessionLosesEverythingAndRegistersAnew).
//   - A node says what a lease left behind that ended without its receipt, when
//     its journal reaches back to the grant and nothing runs any more; else
//     nothing (TestI6_AReturningNodeAccountsForWhatItKnows,
//     TestI6_AnotherJournalAccountsForNothing,
//     TestI6_NothingIsAccountedForWhileACallRuns). It says so again when it has
//     learned more (TestI6_AnAccountNamesWhatIsUnknown).
//   - What somebody else saw of an unknown effect is learned, so that its
//     idempotency key is answered (TestI7_ANodeLearnsWhatSomebodyElseSaw).
//   - Heartbeats carry what changed of effects until it is taken
//     (TestI6_HeartbeatsCarryWhatChanged).
//   - Silence is uncertain, then lost, within the budget; uncertain kills
//     nothing (TestI5_FC20_ABlackHoleIsBlockedAndCutWithinTheBudget,
//     TestFC26_UncertainKillsNothingAndRecovers).
//   - When this goroutine dies the gate still closes by its own clock
//     (TestFC21_TheGateClosesWhenTheKeeperIsGone).
//   - A restart trusts nothing before the authority confirms it
//     (TestARestartIsUncertainUntilTheSetConfirms).
//   - A stop with nothing held closes the session; with holds it leaves it to the
//     next process (TestAStopWithoutHoldsClosesTheSession,
//     TestAStopWithHoldsLeavesTheSessionToItsSuccessor).
//   - A node that was revoked stops at once and says why
//     (TestARevokedNodeStopsAtOnceAndSaysWhy).
//
// Waiting for a busy scope is paced by the server's hint with jitter; durable
// waiters are not part of this version.
package keeper
