// Package scope names the things that are owned.
//
// A scope is {tenant, kind, name}; its text form is "tenant/kind:name" and its
// ID the SHA-256 of a canonical encoding (DESIGN 3, Scope 1-2). A bare string
// is never a scope: a Scope value exists only by Parse or New, which validate
// and canonicalise, so that two spellings of one thing cannot be owned twice
// (FC-17) and a tenant cannot name another tenant's or a system scope (I10).
//
// Not promised: that the thing named exists, or that the caller may act on it.
package scope
