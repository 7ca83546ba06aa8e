// Package uplink keeps one tunnel to one of the authority's replicas, registers
// the session on it, and carries the keeper's requests.
//
// Requests are batched: everything that waits while a frame is being written
// goes with the next one. Answers are matched by sequence number. When the
// stream ends commands are sent again, with the same ids, on the next one;
// heartbeats and fetches fail, and the keeper decides.
//
// Guarantees, each with the test that shows it:
//   - a command keeps its id on every stream until it is decided
//     (TestACommandIsSentAgainWithTheSameIDOnTheNextStream);
//   - an answer reaches only the attempt that asked, once
//     (TestFC57_LateRepliesAreDropped);
//   - an answer that is not understood decides nothing
//     (TestAnAnswerOfAnotherKindDecidesNothing);
//   - effects travel with heartbeats, and count as taken only when the answer
//     says so (TestI6_EffectsAreTakenOnlyWhenTheAnswerSaysSo);
//   - a replica that leaves a heartbeat without an answer, or renews nothing
//     while there is another one, is left in time; each that was too slow makes
//     the next one be waited for longer, so that load makes no herd
//     (TestFC07_AReplicaThatLeavesAHeartbeatWithoutAnswerIsLeft,
//     TestAReplicaThatRenewsNothingIsLeftForAnother,
//     TestFC41_AnOverloadedReplicaIsGivenTheTimeThatItAsksFor);
//   - nothing is sent before the keeper has made a registration durable
//     (TestNothingIsSentBeforeTheRegistrationIsDurable);
//   - attempts to connect back off with jitter and move on to the next address,
//     and wait as long as the authority said (TestTheNextAddressIsTried,
//     TestAttemptsToConnectBackOffUpToTheLimit, TestAWaitAnswerIsRespected);
//   - the node's key never leaves the node
//     (TestANodeEnrolsOnceAndItsKeyIsItsOwn);
//   - each connection shows the certificate of that moment, and one that has
//     expired is told as the reason (TestTheNextConnectionShowsTheRenewedCertificate,
//     TestAnExpiredCertificateIsTold).
//
// Not promised: that the authority has seen a request whose answer is missing.
package uplink
