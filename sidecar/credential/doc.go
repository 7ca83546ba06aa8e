// Package credential is a node's proof of who it is: its certificate, the key
// of it, and the roots that the authority's certificate is checked against.
//
// Guarantees, each with the test that shows it:
//   - the key never leaves the node, and lies in one file of mode 0600 with its
//     certificate, replaced as a whole: a crash leaves a pair that works
//     (TestANodeEnrolsOnceAndItsKeyIsItsOwn);
//   - two thirds into its life a certificate is renewed, with jitter, and again
//     with backoff until it worked (TestACertificateRenewsItselfAtTwoThirds,
//     TestARenewalThatFailsIsTriedAgainWithBackoff);
//   - what comes back is taken only for the same key, node and tenants
//     (TestACertificateOfAnotherNodeIsNotTakenOver);
//   - roots are taken over only when they trust the authority that sent them
//     (TestRootsThatWouldLockTheNodeOutAreNotTakenOver), and an operator's newer
//     ca_file counts beside them (TestANewerConfiguredCAFileCounts);
//   - an expired certificate is named as the reason, and a start with a fresh
//     join token replaces it (TestAnExpiredCertificateIsNamedAndReplaced).
//
// Certificates that are given by configuration are read again for every
// connection and never renewed here: somebody else does.
//
// Not promised: that a certificate is right by the authority's clock. The
// authority checks.
package credential
