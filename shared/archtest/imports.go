package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// layers: shared imports neither side, the sides not each other.
func layers(t *Tree) []string {
	forbidden := map[string][]string{
		"shared": {"authority", "sidecar", "e2e"}, "authority": {"sidecar", "e2e"},
		"sidecar": {"authority", "e2e"}, "proto": {"shared", "authority", "sidecar", "e2e"},
	}
	var out []string
	for _, p := range t.Packages {
		for side, others := range forbidden {
			if !under(p.Path, side) {
				continue
			}
			for _, imp := range append(slices.Clone(p.Imports), p.TestImports...) {
				if underAny(imp, others) {
					out = append(out, fmt.Sprintf("%s imports %s", p.Path, imp))
				}
			}
		}
	}
	return out
}

// drivers: a library that ties to a technology is imported in its place only.
func drivers(t *Tree) []string {
	places := []struct {
		library string
		allowed []string
	}{
		{"github.com/jackc/pgx/v5", []string{"authority/store/postgres", "e2e"}},
		{"modernc.org/sqlite", []string{"authority/store/sqlite", "e2e"}},
		{"go.etcd.io/bbolt", []string{"sidecar/cache", "sidecar/journal", "shared/guard", "e2e"}},
		{"github.com/hashicorp/yamux", []string{"shared/tunnel"}},
	}
	var out []string
	for _, p := range t.Packages {
		for _, place := range places {
			for _, imp := range p.Imports {
				if under(imp, place.library) && !underAny(p.Path, place.allowed) {
					out = append(out, fmt.Sprintf("%s imports %s, which belongs in %s", p.Path, imp, strings.Join(place.allowed, ", ")))
				}
			}
		}
	}
	return out
}

// doorPackages speak the wire. wire converts for them.
func doorPackages() []string {
	return []string{
		"authority/rpc", "authority/rest", "authority/dashboard", "sidecar/localapi", "sidecar/uplink",
		"sidecar/client", "sidecar/cmd/forgeyard", "shared/wire", "proto", "e2e",
	}
}

func generated(t *Tree) []string {
	var out []string
	for _, p := range t.Packages {
		for _, imp := range p.Imports {
			if under(imp, "proto") && !underAny(p.Path, doorPackages()) {
				out = append(out, fmt.Sprintf("%s imports %s", p.Path, imp))
			}
		}
	}
	return out
}

// doors may name the contract's records and errors, never an implementation.
func doors(t *Tree) []string {
	stores := []string{"authority/store/postgres", "authority/store/sqlite", "sidecar/cache"}
	var out []string
	for _, p := range t.Packages {
		if !underAny(p.Path, doorPackages()) || under(p.Path, "e2e") {
			continue
		}
		for _, imp := range p.Imports {
			if underAny(imp, stores) {
				out = append(out, fmt.Sprintf("%s imports %s", p.Path, imp))
			}
		}
	}
	return out
}

func harnesses(t *Tree) []string {
	byPath := map[string]*Package{}
	for _, p := range t.Packages {
		byPath[p.Path] = p
	}
	var out []string
	for _, p := range t.Packages {
		if p.harness() {
			continue
		}
		for _, imp := range p.Imports {
			if q := byPath[imp]; q != nil && q.harness() {
				out = append(out, fmt.Sprintf("%s imports %s outside its tests", p.Path, imp))
			}
			if imp == "testing" || under(imp, "github.com/stretchr/testify") || imp == "pgregory.net/rapid" {
				out = append(out, fmt.Sprintf("%s imports %s outside its tests", p.Path, imp))
			}
		}
	}
	return out
}

// purePackages hold rules over values.
func purePackages() []string {
	return []string{
		"shared/scope", "shared/epoch", "shared/lease", "shared/effect", "shared/boottime", "shared/policy",
		"shared/command", "sidecar/ownership", "sidecar/route", "authority/fold", "authority/storeclock",
	}
}

// pureImports: each other, the store contract's records, ULIDs, and the part
// of the standard library that has no effects.
func pureImports(t *Tree) []string {
	std := []string{
		"bytes", "cmp", "crypto/hmac", "crypto/rand", "crypto/sha256", "crypto/subtle", "encoding", "encoding/base64",
		"encoding/binary", "encoding/hex", "encoding/json", "errors", "fmt", "iter", "maps", "math", "math/bits",
		"net/http", "net/url", "path", "regexp", "slices", "sort", "strconv", "strings",
		"sync/atomic", // a View carries the counter of its hold for readers
		"time", "unicode", "unicode/utf8",
	}
	var out []string
	for _, p := range t.Packages {
		if !slices.Contains(purePackages(), p.Path) {
			continue
		}
		for _, imp := range p.Imports {
			pure := slices.Contains(std, imp) || slices.Contains(purePackages(), imp) ||
				imp == "github.com/oklog/ulid/v2" || imp == "authority/store"
			if !pure {
				out = append(out, fmt.Sprintf("%s imports %s", p.Path, imp))
			}
		}
	}
	return out
}
