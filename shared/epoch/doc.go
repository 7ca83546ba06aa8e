// Package epoch holds the fencing token: one integer that every change of
// ownership raises.
//
// The high 23 bits are the generation of the authority, the low 40 bits a
// counter of the scope (DESIGN 3, Epoch 1-3). Providers compare one integer,
// and raising the generation of every scope at once writes a single row.
//
// Guarantees: Next is strictly above both the scope's present epoch and every
// epoch of a lower generation
// (TestI2_NextIsAboveTheScopeAndEveryLowerGeneration); nothing here ever
// wraps, what would not fit is refused with ErrExhausted
// (TestNextNeverCarriesIntoTheGeneration). Raise comes out above what is
// stored, what was witnessed and the clock
// (TestRaiseIsAboveStoreWitnessAndClock). A Receipt proves that an authority
// which knew the key granted exactly this epoch
// (TestFC108_OnlyTheReceiptOfExactlyThisGrantVerifies).
//
// Not promised: order between two slots or two scopes; that two restores of
// one dump within five minutes come out apart without a witness between them.
package epoch
