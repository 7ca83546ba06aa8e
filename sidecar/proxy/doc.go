// Package proxy sends the callers' requests to providers, each mutation fenced
// by the hold that its base URL names:
//
//	http://127.0.0.1:PORT/h/<hold key>/<provider>/<path of the provider>
//
// # Guarantees
//
//   - A mutation leaves once. It goes out on a single-attempt connection, after
//     its whole body was read and its intent is durable; nothing here retries
//     (TestFC63_OneReceiptPerEffect).
//   - It is admitted three times: before the body is read, after the intent is
//     on disk, and inside the first write to the connection. Every later write
//     is checked against the hard deadline
//     (TestI4_NothingLeavesBeforeTheIntentIsDurable, TestTrap30_TheCheckAfterTheFsyncCounts).
//   - Where the scope demands it the authority has recorded the effect under a
//     live lease before its first byte leaves; refused or unanswered, nothing
//     leaves (TestI4_NothingLeavesThatTheAuthorityDidNotConfirm).
//   - A caller that goes away does not cancel what was started
//     (TestFC64_ACallerThatLeavesCancelsNothing).
//   - When the hold is cut its connections are reset with linger 0, so that the
//     kernel delivers nothing afterwards (TestFC102_NothingIsDeliveredAfterTheCut);
//     at the hard deadline that happens without the keeper too
//     (TestI5_FC21_TheDeadlineCutsWithoutTheKeeper), and uploads end as well
//     (TestFC65_ACutEndsASlowUpload), and so do connections that are
//     idle since (TestFC65_AtTheLossEveryConnectionOfTheHoldIsClosed).
//   - Serve returns when every started effect has its outcome in the journal
//     (TestFC64_ServeReturnsWhenEveryEffectHasItsOutcome).
//   - The key is removed before a request is forwarded; it is neither logged nor
//     echoed, a header or query that repeats it does not go on, and a wrong one
//     cannot be told from somebody else's (TestKeysCannotBeToldApart,
//     TestTheKeyDoesNotReachTheProviderInAHeader).
//   - A refusal never has a status that client libraries retry, and never
//     Retry-After.
//   - Our own headers are stripped from callers and providers, compared after
//     folding case, '_' and '-'.
//
// Framing is always our own: what came chunked or with a length is re-emitted
// from the body that was read, so that two ways to read it cannot differ.
//
// Not promised: exactly-once effects; anything about bytes that a proxy outside
// this machine has taken already. HTTP/1.1 only; upgrades are refused; paths
// with encoded slashes or dots are refused. When a provider's answer says both
// "Connection: close" and names a header there, net/http forgets the name and
// the header passes.
package proxy
