// Package clocktest is a clock that a test turns by hand: forwards as time
// passes, asleep as a suspended machine, and stepped as a person sets it.
package clocktest
