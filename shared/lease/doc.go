// Package lease holds the records of ownership and the pure rules that change
// them: acquire, claim, renew, release, expire, force-release, drain, and after
// an unclean end account, reconcile, resolve for scopes; register, resume, beat,
// revoke and close for sessions; forget, testify and quarantine for a store that
// lost some of its history.
//
// Every rule is a function over values. It is given Facts (the store's clock
// read last, the generation read after the locks, the time pause), the Case of
// one scope as loaded under its locks, and a request; it returns a Change and
// an Answer. No rule reads a clock, mints an identifier, logs or blocks.
//
// # Guarantees, and the tests that prove them
//
//   - I1: a Change never leaves two leases of an exclusive scope that are not
//     ended. Validate proves it for each Change before it is written
//     (TestI2_ValidateRefusesTwoHoldersAndFallingEpochs; e2e/model:
//     TestI1_ExhaustiveSearchFindsNoTwoOwners).
//   - I2: every grant, force release and reopening raises the epoch of its
//     scope (TestFC04_EveryChangeOfOwnershipRaisesTheEpoch; e2e/model:
//     TestI1_I2_I6_RandomWalksOverEveryTransition).
//   - I3: a rule that names a lease names its epoch too; what does not match
//     changes nothing (TestI3_WhatNamesAnOlderTermChangesNothing,
//     TestFC10_ReleaseOfAnOldLeaseLeavesTheNewOne).
//   - I6: an end without the holder's receipt, or with effects unknown, closes
//     the scope where the policy says so
//     (TestI6_UncleanEndsCloseTheScopeWhereThePolicySaysSo). It opens again when
//     its node has settled everything, when somebody has resolved every effect
//     and says what he saw, or unseen by force; never otherwise
//     (TestI6_RandomStepsNeverGrantOverWhatNobodySettled).
//   - A cut of history ends every lease early and closes reconciling scopes; a
//     node's word does not undo that
//     (TestFC98_CutOfHistoryDrainsEveryLeaseAndClosesReconcilingScopes). Records
//     that contradict each other close their scope
//     (TestI1_OneEpochForTwoNodesGoesToQuarantine,
//     TestI2_RecordsOfTwoHistoriesGoToQuarantineAboveEveryEpoch).
//   - Nobody is granted a scope before the former holder's quiescence receipt,
//     its applied set, or the end of its time plus the lock delay
//     (TestFC90_NobodyIsGrantedBeforeTheHolderIsSilent,
//     TestFC90_LaterHeartbeatsDoNotMoveTheDrain).
//   - A heartbeat revives what nobody ended, and nothing else
//     (TestFC02_LateRenewalCannotStealBack,
//     TestFC100_WhoActsOnAnExpiryEndsIt).
//   - A session is taken over only by a process that proves the former one
//     dead (TestFC06_SecondLiveInstanceIsAConflictNotATakeover,
//     TestFC99_ResumeNeedsTheSameBootAndTheSameLockedFile).
//   - During a time pause nothing of a session ends or starts by time; after a
//     cut of history nobody is granted anything before its end
//     (TestFC24_ClockStepsMakeNoSecondOwnerAndNoMassLoss,
//     TestFC101_AfterAStepTheDeadAreGivenUpWithinTheirTTL,
//     TestFC98_AfterACutNobodyIsGrantedBeforeTheLongestTTL).
//   - Force release needs the exact epoch, repeats harmlessly, and what its
//     person accepts outlives the drain
//     (TestFC84_ForceReleaseRepeatsAndConflicts).
//
// # Time
//
// Facts.Now is the store's clock. A deadline d is pending while
// 0 < d-now <= the longest span it can have been set for, plus the lock delay;
// a deadline further in the future was set by a clock that has been stepped
// back, and counts as passed once the time pause that such a step causes is
// over. The lock delay is added because a step below a quarter of it causes no
// pause (TestFC24_StepTooSmallToBeNoticedEndsNothing). Two clocks that slew
// apart by up to 8 % are covered by margin and lock delay (DESIGN 4.6;
// TestBudgetNamesEveryBrokenRelationWithBothValues).
//
// Not promised: that the work under an ended lease has stopped (I6); fairness
// between requests that find the scope busy; anything when the store's clock
// is stepped away and back between two readings of it.
package lease
