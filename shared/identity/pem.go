package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// NewNodeKey makes a node's key and the request for its certificate. The key
// never leaves the node.
func NewNodeKey(name string) (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make node key: %w", err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		return nil, nil, fmt.Errorf("make certificate request: %w", err)
	}
	return key, csr, nil
}

// WritePair writes a chain (leaf first) and its key as PEM. The key file comes
// first and has mode 0600, so that no certificate stands without its key. Each
// file is replaced as a whole; one that exists does not keep its mode.
func WritePair(certFile, keyFile string, chain [][]byte, key crypto.Signer) error {
	if err := writeKey(keyFile, key); err != nil {
		return err
	}
	if err := replace(certFile, EncodeCertificates(chain), 0o644); err != nil {
		return fmt.Errorf("write certificate: %w", err)
	}
	return nil
}

func writeKey(file string, key crypto.Signer) error {
	text, err := encodeKey(key)
	if err != nil {
		return err
	}
	if err := replace(file, text, 0o600); err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	return nil
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// WriteIdentity writes a chain (leaf first) and its key as PEM into one file of
// mode 0600: a crash leaves the former pair or this one, never half of each.
// LoadPair reads it when both names are this file.
func WriteIdentity(file string, chain [][]byte, key crypto.Signer) error {
	text, err := encodeKey(key)
	if err != nil {
		return err
	}
	if err := replace(file, append(EncodeCertificates(chain), text...), 0o600); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	return nil
}

// WriteRoots writes trusted roots as PEM for LoadPool, as a whole.
func WriteRoots(file string, roots [][]byte) error {
	if err := replace(file, EncodeCertificates(roots), 0o644); err != nil {
		return fmt.Errorf("write roots: %w", err)
	}
	return nil
}

// replace writes a file beside its place, syncs it, and renames it there. The
// owner of the former one is kept: root rotates what a daemon must read.
func replace(path string, text []byte, mode os.FileMode) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once renamed
	_, err = f.Write(text)
	if err := errors.Join(err, f.Chmod(mode), keepOwner(f, path), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

func keepOwner(f *os.File, of string) error {
	former, err := os.Stat(of)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	owner, ok := former.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) == os.Geteuid() {
		return nil
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}

// syncDir makes a rename durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// EncodeCertificates returns PEM.
func EncodeCertificates(chain [][]byte) []byte {
	var out []byte
	for _, der := range chain {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return out
}

// LoadPair reads what WritePair wrote; Leaf is set.
func LoadPair(certFile, keyFile string) (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("load certificate %s with key %s: %w", certFile, keyFile, err)
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return tls.Certificate{}, fmt.Errorf("load certificate %s: %w", certFile, err)
		}
	}
	return pair, nil
}

// loadKey reads a private key as WritePair wrote it.
func loadKey(file string) (crypto.Signer, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("load key: %w", err)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			continue
		}
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			if key, err = x509.ParseECPrivateKey(block.Bytes); err != nil {
				return nil, fmt.Errorf("load key %s: neither PKCS #8 nor EC: %w", file, err)
			}
		}
		if signer, ok := key.(crypto.Signer); ok {
			return signer, nil
		}
	}
	return nil, fmt.Errorf("load key %s: holds no private key", file)
}

// LoadCertificates reads every certificate of a PEM file, at least one.
func LoadCertificates(file string) ([]*x509.Certificate, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("load CA file: %w", err)
	}
	var out []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("load CA file %s: %w", file, err)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("load CA file %s: holds no certificate", file)
	}
	return out, nil
}

// LoadPool reads trusted roots from a PEM file.
func LoadPool(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("load CA file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("load CA file %s: holds no certificate", file)
	}
	return pool, nil
}

// ServerTLS is the configuration of a listener; with requireClient the peer
// must show a certificate of pool.
func ServerTLS(cert tls.Certificate, pool *x509.CertPool, requireClient bool) *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}}
	if requireClient {
		cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, pool
	}
	return cfg
}

// ClientTLS is the configuration of a dialler. cert may be nil, for enrolment.
func ClientTLS(cert *tls.Certificate, pool *x509.CertPool, serverName string) *tls.Config {
	cfg := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, ServerName: serverName}
	if cert != nil {
		cfg.Certificates = []tls.Certificate{*cert}
	}
	return cfg
}
