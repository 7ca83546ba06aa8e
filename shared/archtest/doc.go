// Package archtest holds the architecture of the repository as rules that a
// test checks (DESIGN 9, STYLE habit 10).
//
// A Rule looks at a Tree, the packages as `go list` sees them plus their
// syntax, and reports each place that breaks it with the reason. Each rule is
// itself tested on testdata/broken, a module that breaks all of them, so that
// a rule that finds nothing is known to be able to find something.
//
// Not promised: that what reflection or linking does is seen; the rules read
// imports and syntax only.
package archtest
