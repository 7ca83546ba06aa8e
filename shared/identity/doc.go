// Package identity says who is at the other end of a TLS connection, and lets
// the authority give nodes their certificates.
//
// A node is named by URI SANs in the style of SPIFFE: exactly one
// spiffe://<trust-domain>/node/<name>, and one spiffe://<trust-domain>/tenant/<t>
// for each tenant whose scopes it may hold. The certificate is the whole
// identity: no request carries a node name that anybody believes (FC-06, I10).
//
// Guarantees: a certificate that names two nodes, no tenant, a malformed name
// or another trust domain is refused; private keys are written with mode 0600,
// whatever was there before, and a node's pair is replaced as one
// (TestAnIdentityIsOneFileThatIsReplacedAsAWhole); no certificate outlives the
// CA that signed it.
//
// A CA file may hold several certificates: while one CA follows another both
// are trusted, and the one whose key is configured issues
// (TestTheCAOfTheKeyIssuesAndAllOfTheFileAreTrusted).
//
// Not promised: revocation before expiry. The authority keeps who is revoked.
package identity
