package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// The headers that a fenced call carries.
const (
	HeaderToken   = "Fencing-Token" // decimal
	HeaderScope   = "Fencing-Scope"
	HeaderLease   = "Fencing-Lease"
	HeaderKey     = "Idempotency-Key"
	HeaderEffect  = "Forgeyard-Effect"  // on answers: the effect's id
	HeaderRefusal = "Forgeyard-Refusal" // on our refusals: the code

	// HeaderOwnership is on a provider's answer that came when the hold was not
	// owned any more: the code that a new call would be refused with.
	HeaderOwnership = "Forgeyard-Ownership"
)

// hopByHop tells the headers of RFC 9110 section 7.6.1 and its predecessors by
// their canonical names.
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// fold makes names equal that some server folds together.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '-' || r == '_':
			return -1
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		}
		return r
	}, name)
}

// ours reports whether a header, however it is spelt, is one that only we set.
func ours(name string) bool {
	f := fold(name)
	return strings.HasPrefix(f, "fencing") || strings.HasPrefix(f, "forgeyard") || (f == "idempotencykey" && name != HeaderKey)
}

// endToEnd copies what goes on to the other side: no hop-by-hop header, none
// that Connection names, none of ours.
func endToEnd(in http.Header) http.Header {
	out := make(http.Header, len(in)+4) // room for ours
	for name, values := range in {
		if !hopByHop(name) && !ours(name) {
			out[name] = values
		}
	}
	for _, v := range in.Values("Connection") {
		for name := range strings.SplitSeq(v, ",") {
			delete(out, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	return out
}

// outgoing is the header of a fenced request. Ours come last, so that no
// header of the caller can take them away.
func outgoing(in http.Header, t ownership.Term, effectID, key string) http.Header {
	h := endToEnd(in)
	h.Del("Expect") // the body was read already
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = []string{""} // an empty one keeps net/http from adding its own
	}
	h.Set(HeaderToken, t.Epoch.String())
	h.Set(HeaderScope, t.Scope.String())
	h.Set(HeaderLease, t.Lease)
	if key == "" {
		h.Set(HeaderKey, token(effectID))
	} else {
		h[HeaderKey] = in[HeaderKey] // as it came, though Connection may have named it
	}
	return h
}

// token is what a provider recognises a repeat by: a function of the effect's
// id alone, as a UUID of version 8 (RFC 9562), since providers bound the length
// of keys (FC-69).
func token(effectID string) string {
	sum := sha256.Sum256([]byte("forgeyard-effect-v1:" + effectID))
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	s := hex.EncodeToString(sum[:16])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// incoming is the header of a provider's answer as the caller gets it.
func incoming(in http.Header) http.Header {
	h := endToEnd(in)
	h.Del("Alt-Svc") // it would lead the client around the proxy
	return h
}
