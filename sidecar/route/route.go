package route

import (
	"fmt"
	"slices"
	"strings"

	"github.com/forgeyard/concurrency/shared/effect"
)

// Kind says whether an operation changes something.
type Kind string

// The kinds of operations.
const (
	Read     Kind = "read"
	Mutation Kind = "mutation"
)

// Route is one entry of a provider's table, as configured. Path matches the
// path below the provider's name: segments are literal, "*" is any one
// segment, a last "**" is any rest. A slash at the end makes no difference, and
// HEAD is found under GET, since most servers treat them alike.
type Route struct {
	Name    string
	Methods []string // upper case; empty: every method
	Path    string
	Kind    Kind
	Safety  effect.Safety // of a mutation; default manual-only
	GateAll bool          // a read that passes only while owned
	Upgrade bool          // may become a tunnel
}

// Operation is what a request was found to be.
type Operation struct {
	Name    string // of the route, or "METHOD /path"
	Kind    Kind
	Safety  effect.Safety
	GateAll bool
	Upgrade bool
}

// Fenced reports whether the operation needs a permit.
func (o Operation) Fenced() bool { return o.Kind == Mutation || o.GateAll }

// Table is a compiled list of routes; the first match wins.
type Table struct {
	routes []compiled
}

type compiled struct {
	Route
	segments []string
}

// Compile checks every route. Its errors name the index, the field and the
// value.
func Compile(routes []Route) (Table, error) {
	var t Table
	for i, r := range routes {
		if err := check(r); err != nil {
			return Table{}, fmt.Errorf("routes[%d].%w", i, err)
		}
		if r.Kind == Mutation && r.Safety == "" {
			r.Safety = effect.ManualOnly
		}
		t.routes = append(t.routes, compiled{Route: r, segments: split(r.Path)})
	}
	return t, nil
}

func check(r Route) error {
	if r.Name == "" {
		return fmt.Errorf("name: must not be empty")
	}
	if !strings.HasPrefix(r.Path, "/") {
		return fmt.Errorf("path %q: must start with /", r.Path)
	}
	if i := strings.Index(r.Path, "**"); i >= 0 && i != len(r.Path)-2 {
		return fmt.Errorf("path %q: ** must come last", r.Path)
	}
	if r.Kind != Read && r.Kind != Mutation {
		return fmt.Errorf("kind %q: must be read or mutation", r.Kind)
	}
	safeties := []effect.Safety{"", effect.Idempotent, effect.ProviderIdempotent, effect.InspectBeforeRetry, effect.ManualOnly}
	if !slices.Contains(safeties, r.Safety) {
		return fmt.Errorf("retry_safety %q: must be idempotent, provider-idempotent, inspect-before-retry or manual-only", r.Safety)
	}
	for _, m := range r.Methods {
		if m == "" || m != strings.ToUpper(m) {
			return fmt.Errorf("methods %q: must be upper case", m)
		}
	}
	return nil
}

// Match finds the operation of a request by its method and its path as it was
// sent, escapes included. It fails with *PathError.
func (t Table) Match(method, escapedPath string) (Operation, error) {
	path, err := Canonical(escapedPath)
	if err != nil {
		return Operation{}, err
	}
	segments := split(path)
	for _, r := range t.routes {
		if !r.takes(method) {
			continue
		}
		if matches(r.segments, segments) {
			return Operation{Name: r.Name, Kind: r.Kind, Safety: r.Safety, GateAll: r.GateAll, Upgrade: r.Upgrade}, nil
		}
	}
	op := Operation{Name: method + " " + path, Kind: Mutation, Safety: effect.ManualOnly}
	switch method {
	case "GET", "HEAD", "OPTIONS", "TRACE":
		op.Kind, op.Safety = Read, ""
	}
	return op, nil
}

func split(path string) []string {
	return strings.Split(strings.TrimSuffix(path[1:], "/"), "/")
}

func (r Route) takes(method string) bool {
	return len(r.Methods) == 0 || slices.Contains(r.Methods, method) || (method == "HEAD" && slices.Contains(r.Methods, "GET"))
}

func matches(pattern, segments []string) bool {
	for i, p := range pattern {
		if p == "**" {
			return true
		}
		if i >= len(segments) || (p != "*" && p != segments[i]) || (p == "*" && segments[i] == "") {
			return false
		}
	}
	return len(pattern) == len(segments)
}
