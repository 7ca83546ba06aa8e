package access_test

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/access"
	"github.com/forgeyard/concurrency/shared/scope"
)

func token(name, secret string, roles ...access.Role) access.Token {
	h := access.Hash(secret)
	return access.Token{Name: name, SHA256: hex.EncodeToString(h[:]), Roles: roles, Tenants: []string{"acme"}}
}

func TestFC86_EveryRightIsARoleOfItsOwn(t *testing.T) {
	t.Parallel()
	people, err := access.NewPeople([]access.Token{
		token("reader", "r", access.Read), token("breaker", "b", access.ForceRelease), token("admin", "a", access.Admin),
	})
	require.NoError(t, err)
	for _, tc := range []struct {
		header string
		may    []access.Role
	}{
		{"Bearer r", []access.Role{access.Read}},
		{"bearer b", []access.Role{access.ForceRelease}},
		{"Bearer a", access.Roles()},
	} {
		p, err := people.Authenticate(tc.header)
		require.NoError(t, err)
		for _, role := range access.Roles() {
			err := p.May(role)
			if contains(tc.may, role) {
				require.NoError(t, err, "%s %s", p.Name, role)
				continue
			}
			require.ErrorIs(t, err, access.ErrDenied)
			require.ErrorContains(t, err, string(role))
		}
	}
}

func contains(roles []access.Role, r access.Role) bool {
	for _, have := range roles {
		if have == r {
			return true
		}
	}
	return false
}

func TestUnknownTokensAreNobody(t *testing.T) {
	t.Parallel()
	people, err := access.NewPeople([]access.Token{token("reader", "r", access.Read)})
	require.NoError(t, err)
	for _, header := range []string{"", "Bearer", "Bearer ", "Bearer x", "Basic r", "r"} {
		_, err := people.Authenticate(header)
		require.ErrorIs(t, err, access.ErrUnauthenticated, header)
	}
}

func TestMalformedTokensAreRefused(t *testing.T) {
	t.Parallel()
	good := token("x", "x", access.Read)
	for name, bad := range map[string]func(*access.Token){
		"name":    func(t *access.Token) { t.Name = "" },
		"sha256":  func(t *access.Token) { t.SHA256 = "abc" },
		"tenants": func(t *access.Token) { t.Tenants = nil },
		"roles":   func(t *access.Token) { t.Roles = []access.Role{"root"} },
	} {
		tok := good
		bad(&tok)
		_, err := access.NewPeople([]access.Token{tok})
		require.ErrorContains(t, err, name)
	}
	_, err := access.NewPeople([]access.Token{good, token("y", "x", access.Read)})
	require.ErrorContains(t, err, "the same")
}

func TestI10_NodeIsHeldToItsTenants(t *testing.T) {
	t.Parallel()
	own, err := scope.Parse("acme/environment:prod")
	require.NoError(t, err)
	foreign, err := scope.Parse("umbrella/environment:prod")
	require.NoError(t, err)
	require.NoError(t, access.NodeMay("n1", []string{"acme"}, own))
	err = access.NodeMay("n1", []string{"acme", "beta"}, foreign)
	require.EqualError(t, err, `scope umbrella/environment:prod: tenant "umbrella" is not one of node n1, which may use acme, beta`)
}
