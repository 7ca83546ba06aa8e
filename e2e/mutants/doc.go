// Package mutants checks the checks: each guard of the pure machines is taken
// out once, alone, and the tests of its package must fail. A mutant that
// survives is a rule that nobody proves. Those named "search" are laid under
// the exhaustive search of e2e/model, which must find a broken property.
//
// The mutants are texts, laid over the sources with `go test -overlay`; the
// tree itself is never changed. A text that does not occur exactly once fails
// the check, so that a mutant cannot rot away unseen.
package mutants
