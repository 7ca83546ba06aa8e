// Package fold runs the commands of one transaction over what the store loaded
// for it, one after the other, each seeing what the former ones changed, and
// hands back one row per key (FC-96).
//
// It is pure: the same commands over the same records give the same changes,
// so a store may call it again when it retries the transaction.
//
// # Guarantees
//
//   - A command id that the store knows writes nothing: its stored answer comes
//     back as replayed, without a duration that would extend anything (FC-92).
//     The same id with another digest is a conflict.
//   - Every change of a rule is proved by lease.Validate before it counts. A
//     change that fails is a defect: that command alone is refused and nothing
//     of it is written. A refusal harms no other command of the batch.
//   - Every grant's answer carries the receipt of its epoch (DESIGN 5.8).
//   - A verified receipt ahead of the store aborts the batch with
//     *AheadError: the history was cut, and nobody is granted anything before
//     the generation was raised.
//
// Not promised: an order between commands other than that of the batch.
package fold
