// Package policy finds the policy of a scope: the default of its kind, with
// the rules of the configuration laid over it in their order (DESIGN 3,
// ScopePolicy).
//
// Guarantees: every scope has a policy; For names the configuration path that
// decided last, so that people can find out why. Validate names path and value
// of everything that is wrong.
//
// Not promised: that two replicas have read the same configuration.
package policy
