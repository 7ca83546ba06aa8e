// Package provider is a service with side effects, as sidecars call them: it
// holds plans, and refuses a token lower than one it has seen for the scope.
//
// Guarantees: the comparison and the write are one step; the log has every
// request that came, in order, whatever became of it.
//
// Not promised: that its memory outlives the process.
package provider
