package scope

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// Limits of the parts, in bytes.
const (
	MaxTenant = 63
	MaxName   = 200
)

// shown bounds how much of a refused value an error repeats, in bytes.
const shown = 2 * MaxName

// SystemTenant is reserved for the authority itself.
const SystemTenant = "system"

// Scope is a validated, canonical name. The zero Scope is invalid.
type Scope struct {
	tenant string
	kind   Kind
	name   string
}

// ID is the SHA-256 of the canonical encoding of a Scope; the key in stores.
type ID [sha256.Size]byte

// InvalidError says which part of a scope is wrong and what is allowed.
type InvalidError struct {
	Field   string // tenant, kind, name or scope
	Value   string
	Allowed string
}

// Error implements error.
func (e *InvalidError) Error() string {
	value := e.Value
	if len(value) > shown {
		value = value[:shown] + "..."
	}
	return fmt.Sprintf("scope: %s %q: %s", e.Field, value, e.Allowed)
}

// New validates and canonicalises the parts. It fails with *InvalidError.
func New(tenant string, kind Kind, name string) (Scope, error) {
	if err := validTenant(tenant); err != nil {
		return Scope{}, err
	}
	if !kind.Valid() {
		return Scope{}, &InvalidError{Field: "kind", Value: string(kind), Allowed: "must be one of " + kindList()}
	}
	if !kind.CaseSensitive() {
		name = strings.ToLower(name)
	}
	if err := validName(name); err != nil {
		return Scope{}, err
	}
	return Scope{tenant: tenant, kind: kind, name: name}, nil
}

// Parse reads the text form "tenant/kind:name". It fails with *InvalidError.
func Parse(text string) (Scope, error) {
	tenant, rest, ok := strings.Cut(text, "/")
	if !ok {
		return Scope{}, malformed(text)
	}
	kind, name, ok := strings.Cut(rest, ":")
	if !ok {
		return Scope{}, malformed(text)
	}
	return New(tenant, Kind(kind), name)
}

// Tenant returns the owner of the name space.
func (s Scope) Tenant() string { return s.tenant }

// Kind returns what sort of thing s names.
func (s Scope) Kind() Kind { return s.kind }

// Name returns the canonical name within tenant and kind.
func (s Scope) Name() string { return s.name }

// IsZero reports whether s is the invalid zero value.
func (s Scope) IsZero() bool { return s == Scope{} }

// String returns the canonical text form.
func (s Scope) String() string {
	if s.IsZero() {
		return ""
	}
	return s.tenant + "/" + string(s.kind) + ":" + s.name
}

// ID returns the key of s: SHA-256 over "forgeyard-scope-v1" and the three
// parts, each preceded by its length as a big-endian uint32, so that no two
// scopes share an encoding.
func (s Scope) ID() ID {
	buf := []byte("forgeyard-scope-v1")
	for _, part := range []string{s.tenant, string(s.kind), s.name} {
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(part)))
		buf = append(buf, part...)
	}
	return sha256.Sum256(buf)
}

// String returns the hexadecimal form.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Compare orders IDs bytewise: the lock order of DESIGN 5.3.
func (id ID) Compare(o ID) int { return strings.Compare(string(id[:]), string(o[:])) }

func malformed(text string) error {
	return &InvalidError{Field: "scope", Value: text, Allowed: "must read tenant/kind:name, for example acme/environment:prod"}
}

func kindList() string {
	names := make([]string, 0, len(Kinds()))
	for _, k := range Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

func validTenant(t string) error {
	bad := func(why string) error { return &InvalidError{Field: "tenant", Value: t, Allowed: why} }
	const allowed = "must be 1 to 63 of a-z, 0-9 and -, starting with a letter"
	if t == SystemTenant {
		return bad("is reserved")
	}
	if t == "" || len(t) > MaxTenant || t[0] < 'a' || t[0] > 'z' {
		return bad(allowed)
	}
	for i := range len(t) {
		c := t[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return bad(allowed)
		}
	}
	return nil
}

func validName(n string) error {
	const allowed = "must be 1 to 200 of letters, digits and ._-/@+:, neither starting nor ending with / and without // or .."
	bad := func() error { return &InvalidError{Field: "name", Value: n, Allowed: allowed} }
	if n == "" || len(n) > MaxName || n[0] == '/' || n[len(n)-1] == '/' {
		return bad()
	}
	if strings.Contains(n, "//") || strings.Contains(n, "..") {
		return bad()
	}
	for i := range len(n) {
		c := n[i]
		letter := (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
		if !letter && (c < '0' || c > '9') && !strings.ContainsRune("._-/@+:", rune(c)) {
			return bad()
		}
	}
	return nil
}
