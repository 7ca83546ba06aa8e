package epoch

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// CounterBits is the width of the counter; the generation takes the 23 bits
// above, so that an Epoch fits a signed 64-bit column.
const CounterBits = 40

// Bounds of the two parts.
const (
	MaxGeneration Generation = 1<<23 - 1
	maxCounter               = 1<<CounterBits - 1
)

// ErrExhausted says that a generation or counter would not fit any more. It is
// an alarm, not a condition that passes (Epoch 3).
var ErrExhausted = errors.New("epoch: exhausted")

// Epoch is a fencing token. Zero means "never granted".
type Epoch uint64

// Generation counts the times that the authority's own history may have been
// cut. It starts at 1.
type Generation uint32

// Generation returns the high part.
func (e Epoch) Generation() Generation { return Generation(e >> CounterBits) }

// Counter returns the low part.
func (e Epoch) Counter() uint64 { return uint64(e) & maxCounter }

// String returns the decimal form that travels in headers and JSON.
func (e Epoch) String() string { return strconv.FormatUint(uint64(e), 10) }

// Parse reads the decimal form; it refuses what does not fit 63 bits.
func Parse(s string) (Epoch, error) {
	v, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("epoch: %q: must be a decimal number below 2^63", s)
	}
	return Epoch(v), nil
}

// Next returns the epoch of the next owner: max(e+1, generation<<40 + 1).
// It fails with ErrExhausted rather than carry into the generation.
func Next(e Epoch, g Generation) (Epoch, error) {
	if g > MaxGeneration {
		return 0, fmt.Errorf("%w: generation %d", ErrExhausted, g)
	}
	first := Epoch(g)<<CounterBits + 1
	if e < first {
		return first, nil
	}
	if e.Counter() == maxCounter {
		return 0, fmt.Errorf("%w: counter of generation %d", ErrExhausted, e.Generation())
	}
	return e + 1, nil
}

var clockOrigin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Raise returns the generation to store when the history may have been cut:
// max(stored+1, witness+1, five-minute units of now since 2026-01-01), so that
// a second restore of one dump still comes out higher (Epoch 3, FC-97).
// witness is the highest verified generation seen outside the store, or 0.
func Raise(stored, witness Generation, now time.Time) (Generation, error) {
	next := max(uint64(stored)+1, uint64(witness)+1)
	if units := now.Sub(clockOrigin) / (5 * time.Minute); units > 0 {
		next = max(next, uint64(units))
	}
	if next > uint64(MaxGeneration) {
		return 0, fmt.Errorf("%w: generation %d", ErrExhausted, next)
	}
	return Generation(next), nil
}
