package access

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Role is one right.
type Role string

// The roles of DESIGN 8.
const (
	Read              Role = "concurrency.read"
	Acquire           Role = "concurrency.acquire"
	ManageReservation Role = "concurrency.reservation.manage"
	ForceRelease      Role = "concurrency.force_release"
	Admin             Role = "concurrency.admin"
)

// Roles lists every role.
func Roles() []Role { return []Role{Read, Acquire, ManageReservation, ForceRelease, Admin} }

// AllTenants in a token's list opens every tenant.
const AllTenants = "*"

var (
	// ErrUnauthenticated says that there is no token, or not one of ours.
	ErrUnauthenticated = errors.New("access: bearer token missing or unknown")
	// ErrDenied says that the caller lacks a role.
	ErrDenied = errors.New("access: denied")
)

// Person is an authenticated caller.
type Person struct {
	Name    string
	Roles   []Role
	Tenants []string
}

// Principal is the person's name in command ids and the audit log.
func (p Person) Principal() string { return "person:" + p.Name }

// May fails with ErrDenied, naming what is missing, unless the person has r.
func (p Person) May(r Role) error {
	if slices.Contains(p.Roles, r) || slices.Contains(p.Roles, Admin) {
		return nil
	}
	return fmt.Errorf("%w: %s lacks the role %s", ErrDenied, p.Name, r)
}

// Sees reports whether the tenant is one of the person's.
func (p Person) Sees(tenant string) bool {
	return slices.Contains(p.Tenants, tenant) || slices.Contains(p.Tenants, AllTenants)
}

// Token is one entry of the configuration.
type Token struct {
	Name    string   `config:"name"`
	SHA256  string   `config:"sha256"` // hexadecimal, of the token's text
	Roles   []Role   `config:"roles"`
	Tenants []string `config:"tenants"` // "*": all
}

// Hash is what a configuration holds of a token.
func Hash(token string) [32]byte { return sha256.Sum256([]byte(token)) }

// Check reports the first thing wrong with t as (field, problem); both are
// empty when it is fine.
func (t Token) Check() (field, problem string) {
	if t.Name == "" {
		return "name", "must not be empty"
	}
	if raw, err := hex.DecodeString(t.SHA256); err != nil || len(raw) != sha256.Size {
		return "sha256", "must be 64 hexadecimal digits: the SHA-256 of the token"
	}
	if len(t.Tenants) == 0 {
		return "tenants", "must name at least one tenant, or \"*\""
	}
	for _, r := range t.Roles {
		if !slices.Contains(Roles(), r) {
			return "roles", fmt.Sprintf("%q: must be one of %v", r, Roles())
		}
	}
	return "", ""
}

// People knows the tokens.
type People struct {
	byHash map[[32]byte]Person
}

// NewPeople fails when a token is malformed or appears twice.
func NewPeople(tokens []Token) (*People, error) {
	p := &People{byHash: make(map[[32]byte]Person, len(tokens))}
	for _, t := range tokens {
		if field, problem := t.Check(); problem != "" {
			return nil, fmt.Errorf("access: token %q: %s: %s", t.Name, field, problem)
		}
		raw, _ := hex.DecodeString(t.SHA256) // checked above
		key := [32]byte(raw)
		if other, twice := p.byHash[key]; twice {
			return nil, fmt.Errorf("access: tokens %q and %q are the same", other.Name, t.Name)
		}
		p.byHash[key] = Person{Name: t.Name, Roles: t.Roles, Tenants: t.Tenants}
	}
	return p, nil
}

// Authenticate finds the person behind the value of an Authorization header.
// The lookup is by hash, so its duration tells nothing about other tokens.
func (p *People) Authenticate(header string) (Person, error) {
	scheme, token, ok := strings.Cut(header, " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		return Person{}, ErrUnauthenticated
	}
	person, ok := p.byHash[Hash(strings.TrimSpace(token))]
	if !ok {
		return Person{}, ErrUnauthenticated
	}
	return person, nil
}

type personKey struct{}

// WithPerson returns a context that carries the caller.
func WithPerson(ctx context.Context, p Person) context.Context {
	return context.WithValue(ctx, personKey{}, p)
}

// PersonOf returns the caller, or ErrUnauthenticated.
func PersonOf(ctx context.Context) (Person, error) {
	p, ok := ctx.Value(personKey{}).(Person)
	if !ok {
		return Person{}, ErrUnauthenticated
	}
	return p, nil
}
