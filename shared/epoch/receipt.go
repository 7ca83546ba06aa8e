package epoch

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

// ReceiptKey is the secret that all replicas of one authority share; 32 bytes.
type ReceiptKey [32]byte

// Receipt is the authority's word, kept by the node, that it granted an epoch:
// HMAC-SHA256 over authority id, scope id, epoch and node (DESIGN 5.8).
type Receipt []byte

// Seal makes the receipt of a grant.
func (k ReceiptKey) Seal(authority string, scopeID [32]byte, e Epoch, node string) Receipt {
	m := hmac.New(sha256.New, k[:])
	m.Write([]byte("forgeyard-receipt-v1"))
	var n [8]byte
	for _, part := range [][]byte{[]byte(authority), scopeID[:], []byte(node)} {
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		m.Write(n[:])
		m.Write(part)
	}
	binary.BigEndian.PutUint64(n[:], uint64(e))
	m.Write(n[:])
	return m.Sum(nil)
}

// Verify reports whether r is the receipt of exactly this grant. Only a
// verified receipt counts as a witness (FC-108).
func (k ReceiptKey) Verify(r Receipt, authority string, scopeID [32]byte, e Epoch, node string) bool {
	return hmac.Equal(r, k.Seal(authority, scopeID, e, node))
}
