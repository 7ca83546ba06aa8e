package identity

import (
	"crypto/x509"
	"encoding/hex"
	"time"
)

// IssuedAt is when a certificate was issued, to the second: its validity begins
// a little earlier than that.
func IssuedAt(cert *x509.Certificate) time.Time {
	if at := cert.NotBefore.Add(backdate); at.Before(cert.NotAfter) {
		return at
	}
	return cert.NotBefore
}

// RenewAt is two thirds into a certificate's life (DESIGN 7.4): the last third
// is left for an authority that is away.
func RenewAt(cert *x509.Certificate) time.Time {
	issued := IssuedAt(cert)
	return issued.Add(cert.NotAfter.Sub(issued) / 3 * 2)
}

// IssuerOf names the key that signed a certificate; CA.KeyID tells whose it is.
// It is empty for a certificate that does not say.
func IssuerOf(cert *x509.Certificate) string { return hex.EncodeToString(cert.AuthorityKeyId) }

// KeyIDOf names the key of a CA certificate, as IssuerOf names it in what it
// issued.
func KeyIDOf(ca *x509.Certificate) string { return hex.EncodeToString(ca.SubjectKeyId) }
