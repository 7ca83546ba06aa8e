// Package reconciler holds the loops that keep the authority's records tidy:
// for now the sweeper, which calls the same use cases as everybody else.
//
// Guarantees: a loop never stops because of an error; each round has its own
// deadline. Not promised: that anything depends on it. With the sweeper dead,
// whoever asks for an expired scope settles it himself (FC-08).
package reconciler
