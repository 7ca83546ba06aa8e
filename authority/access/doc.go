// Package access says who may do what: people by bearer tokens with roles and
// tenants, nodes by the tenants of their certificate.
//
// Guarantees: a token is known by its SHA-256 only; every right is a separate
// role, and the right to administer contains the others (FC-86). A tenant that
// is not the caller's answers exactly like one that does not exist (I10); a
// node is told which tenants it may use, because those are its own.
//
// Not promised: revocation of a token before the configuration was read again.
package access
