package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// caValidity is how long a CA that this package makes lasts.
const caValidity = 10 * 365 * 24 * time.Hour

// backdate is how far a certificate's validity reaches into the past, so that
// a node whose clock is a little behind can use it at once.
const backdate = 5 * time.Minute

// ErrExpiredCA says that nothing can be issued any more.
var ErrExpiredCA = errors.New("identity: CA has expired")

// CA issues certificates for one trust domain.
type CA struct {
	cert        *x509.Certificate
	key         crypto.Signer
	trustDomain string
	trusted     []*x509.Certificate // its own, and those of its predecessors
}

// NewCA makes a self-signed CA.
func NewCA(now time.Time, trustDomain string) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make CA key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: trustDomain + " node CA"},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(caValidity),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make CA certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make CA certificate: %w", err)
	}
	return &CA{cert: cert, key: key, trustDomain: trustDomain, trusted: []*x509.Certificate{cert}}, nil
}

// Save writes ca.pem and, with mode 0600, ca-key.pem into dir.
func (ca *CA) Save(dir string) error {
	return ca.SaveFiles(filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca-key.pem"))
}

// SaveFiles writes the trusted certificates and then the key: after a crash in
// between the former key still issues, and what follows it is trusted already.
func (ca *CA) SaveFiles(certFile, keyFile string) error {
	if err := WriteRoots(certFile, ca.Roots()); err != nil {
		return err
	}
	return writeKey(keyFile, ca.key)
}

// Follow makes the CA that comes after this one: it issues, and what this one
// has issued stays trusted until Retire.
func (ca *CA) Follow(now time.Time) (*CA, error) {
	next, err := NewCA(now, ca.trustDomain)
	if err != nil {
		return nil, err
	}
	next.trusted = append(next.trusted, ca.trusted...)
	return next, nil
}

// Predecessors are the trusted certificates that issue no more.
func (ca *CA) Predecessors() []*x509.Certificate {
	return slices.DeleteFunc(slices.Clone(ca.trusted), func(c *x509.Certificate) bool { return c.Equal(ca.cert) })
}

// Retire returns the CA without its predecessors.
func (ca *CA) Retire() *CA {
	return &CA{cert: ca.cert, key: ca.key, trustDomain: ca.trustDomain, trusted: []*x509.Certificate{ca.cert}}
}

// Certificate returns the CA's own certificate.
func (ca *CA) Certificate() *x509.Certificate { return ca.cert }

// LoadCA reads what Save wrote. A missing file is reported as fs.ErrNotExist.
func LoadCA(dir, trustDomain string) (*CA, error) {
	return LoadCAFiles(filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca-key.pem"), trustDomain)
}

// LoadCAFiles reads a CA from two PEM files. The first may hold several
// certificates, while one CA follows another: the one of the key issues, all of
// them are trusted.
func LoadCAFiles(certFile, keyFile, trustDomain string) (*CA, error) {
	trusted, err := LoadCertificates(certFile)
	if err != nil {
		return nil, err
	}
	key, err := loadKey(keyFile)
	if err != nil {
		return nil, err
	}
	ca := &CA{key: key, trustDomain: trustDomain, trusted: trusted}
	for _, c := range trusted {
		if public, ok := c.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); ok && public.Equal(key.Public()) {
			ca.cert = c
		}
	}
	if ca.cert == nil {
		return nil, fmt.Errorf("load CA: no certificate in %s is of the key in %s", certFile, keyFile)
	}
	if !ca.cert.IsCA {
		return nil, fmt.Errorf("load CA: the certificate in %s is not a CA's", certFile)
	}
	return ca, nil
}

// TrustDomain returns the trust domain that the CA issues for.
func (ca *CA) TrustDomain() string { return ca.trustDomain }

// Pool returns the trusted roots: the CA's own certificate and those of the
// predecessors that are not retired yet.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range ca.trusted {
		pool.AddCert(c)
	}
	return pool
}

// Roots returns the certificates of Pool.
func (ca *CA) Roots() [][]byte {
	out := make([][]byte, 0, len(ca.trusted))
	for _, c := range ca.trusted {
		out = append(out, c.Raw)
	}
	return out
}

// KeyID names the CA's key, as IssuerOf names it in what it issued.
func (ca *CA) KeyID() string { return KeyIDOf(ca.cert) }

// DER returns the CA's own certificate.
func (ca *CA) DER() []byte { return ca.cert.Raw }

// IssueNode signs the request's key for n; nothing else of the request is
// taken over. It returns the chain, leaf first.
func (ca *CA) IssueNode(csrDER []byte, n Node, now time.Time, validity time.Duration) ([][]byte, error) {
	if err := n.Validate(); err != nil {
		return nil, err
	}
	csr, err := x509.ParseCertificateRequest(csrDER)
	if err != nil {
		return nil, fmt.Errorf("identity: certificate request: %w", err)
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("identity: certificate request: %w", err)
	}
	if key, ok := csr.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("identity: certificate request: key must be ECDSA P-256")
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: n.Name}, URIs: n.uris(ca.trustDomain),
		NotBefore: now.Add(-backdate), NotAfter: now.Add(validity),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	return ca.sign(template, csr.PublicKey)
}

// IssueServer makes a key and certificate for a server of these names and
// addresses.
func (ca *CA) IssueServer(names []string, ips []net.IP, now time.Time, validity time.Duration) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make server key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "forgeyard-authority"},
		DNSNames: names, IPAddresses: ips,
		NotBefore: now.Add(-backdate), NotAfter: now.Add(validity),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	chain, err := ca.sign(template, key.Public())
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: chain, PrivateKey: key}, nil
}

// sign never lets a certificate outlive the CA: it would look valid in its
// own dates and be refused by everybody.
func (ca *CA) sign(template *x509.Certificate, public crypto.PublicKey) ([][]byte, error) {
	if !template.NotAfter.After(template.NotBefore.Add(backdate)) {
		return nil, fmt.Errorf("sign certificate: validity must be above zero")
	}
	if issued := template.NotBefore.Add(backdate); !issued.Before(ca.cert.NotAfter) {
		return nil, fmt.Errorf("%w: on %s", ErrExpiredCA, ca.cert.NotAfter.Format(time.DateOnly))
	}
	if template.NotAfter.After(ca.cert.NotAfter) {
		template.NotAfter = ca.cert.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, public, ca.key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	return [][]byte{der, ca.cert.Raw}, nil
}

func serial() *big.Int {
	b := make([]byte, 16)
	rand.Read(b) // never fails (Go 1.24)
	b[0] &= 0x7f // positive, as RFC 5280 demands
	return new(big.Int).SetBytes(b)
}

// Exists reports whether a CA was saved in dir.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "ca-key.pem"))
	return err == nil
}
