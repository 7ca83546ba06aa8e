package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/forgeyard/concurrency/shared/scope"
)

// DefaultTrustDomain names the installation in certificates.
const DefaultTrustDomain = "forgeyard"

// MaxName is the length limit of a node name, in bytes.
const MaxName = 63

// ErrNotANode says that a certificate does not name a node as this package
// demands.
var ErrNotANode = errors.New("identity: certificate names no node")

// Node is a sidecar's machine or runner.
type Node struct {
	Name    string
	Tenants []string // sorted, at least one
}

// MayHold reports whether the node may hold scopes of this tenant.
func (n Node) MayHold(tenant string) bool { return slices.Contains(n.Tenants, tenant) }

// Validate checks the charset of the name and that every tenant can own
// scopes.
func (n Node) Validate() error {
	if !validName(n.Name) {
		return fmt.Errorf("identity: node %q: must be 1 to %d of a-z, 0-9, - and ., starting with a letter or digit", n.Name, MaxName)
	}
	if len(n.Tenants) == 0 {
		return fmt.Errorf("identity: node %q: must have at least one tenant", n.Name)
	}
	for _, t := range n.Tenants {
		if _, err := scope.New(t, scope.Custom, "x"); err != nil {
			return fmt.Errorf("identity: node %q: %w", n.Name, err)
		}
	}
	return nil
}

func validName(n string) bool {
	if n == "" || len(n) > MaxName || n[0] == '-' || n[0] == '.' {
		return false
	}
	for i := range len(n) {
		c := n[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return false
		}
	}
	return true
}

// uris returns the SANs of n.
func (n Node) uris(trustDomain string) []*url.URL {
	out := []*url.URL{{Scheme: "spiffe", Host: trustDomain, Path: "/node/" + n.Name}}
	for _, t := range n.Tenants {
		out = append(out, &url.URL{Scheme: "spiffe", Host: trustDomain, Path: "/tenant/" + t})
	}
	return out
}

// NodeOf reads a verified certificate. It fails with ErrNotANode.
func NodeOf(cert *x509.Certificate, trustDomain string) (Node, error) {
	var n Node
	for _, u := range cert.URIs {
		if u.Scheme != "spiffe" || u.Host != trustDomain {
			return Node{}, fmt.Errorf("%w: uri %q is outside trust domain %q", ErrNotANode, u, trustDomain)
		}
		kind, value, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
		if plain := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/" + kind + "/" + value}); *u != *plain {
			return Node{}, fmt.Errorf("%w: uri %q has more than a host and two path elements", ErrNotANode, u)
		}
		switch {
		case kind == "node" && n.Name == "":
			n.Name = value
		case kind == "tenant" && !slices.Contains(n.Tenants, value):
			n.Tenants = append(n.Tenants, value)
		default:
			return Node{}, fmt.Errorf("%w: unexpected uri %q", ErrNotANode, u)
		}
	}
	slices.Sort(n.Tenants)
	if err := n.Validate(); err != nil {
		return Node{}, fmt.Errorf("%w: %w", ErrNotANode, err)
	}
	return n, nil
}
