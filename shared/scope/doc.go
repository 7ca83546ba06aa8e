// Package scope names the things that are owned.
//
// A scope is {tenant, kind, name}; its text form is "tenant/kind:name" and its
// ID the SHA-256 of a canonical encoding (DESIGN 3, Scope 1-2). A bare string
// is never a scope: a Scope value exists only by Parse or New, which validate
// and canonicalise, so that two spellings of one thing cannot be owned twice
// (TestFC17_TwoSpellingsOfOneThingAreOneScope) and a tenant cannot name a
// system scope (TestI10_SystemScopesCannotBeNamed). No two scopes share an
// encoding, and the encoding never changes
// (TestIDIsOfTheCanonicalEncoding). Errors name field, value and what is
// allowed (TestParseErrorsNameFieldValueAndWhatIsAllowed); FuzzParse.
//
// Not promised: that the thing named exists, or that the caller may act on it.
package scope
