package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/scope"
)

// The headers that a fenced call carries.
const (
	HeaderToken = "Fencing-Token" // decimal
	HeaderScope = "Fencing-Scope"
	HeaderLease = "Fencing-Lease"
)

// Handler lets safe methods (RFC 9110 section 9.2.1) pass and every other
// request only in the order of its token: 412 for a stale or conflicting one,
// 428 without a token, 400 for a malformed one, 500 when the marks cannot be
// kept. Report, when not nil, hears of every *ConflictError.
func Handler(g *Guard, next http.Handler, report func(error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
			next.ServeHTTP(w, r)
			return
		}
		k, m, err := FromHeader(r.Header)
		if err != nil {
			refuse(w, err)
			return
		}
		err = g.Do(r.Context(), k, m, func() error {
			next.ServeHTTP(w, r)
			return nil
		})
		if err == nil {
			return
		}
		var conflict *ConflictError
		if errors.As(err, &conflict) && report != nil {
			report(err)
		}
		refuse(w, err)
	})
}

// ErrNoToken says that a request carries no token at all.
var ErrNoToken = errors.New("guard: request has no fencing token")

// HeaderError says which fencing header is wrong.
type HeaderError struct {
	Name    string
	Problem string
}

// Error implements error.
func (e *HeaderError) Error() string { return "guard: header " + e.Name + ": " + e.Problem }

// FromHeader reads key and mark of a request. It fails with ErrNoToken or
// *HeaderError.
func FromHeader(h http.Header) (Key, Mark, error) {
	one := func(name string) (string, error) {
		switch v := h.Values(name); len(v) {
		case 0:
			return "", &HeaderError{Name: name, Problem: "is missing"}
		case 1:
			return v[0], nil
		default:
			return "", &HeaderError{Name: name, Problem: fmt.Sprintf("stands %d times", len(v))}
		}
	}
	if len(h.Values(HeaderToken)) == 0 {
		return Key{}, Mark{}, ErrNoToken
	}
	token, err := one(HeaderToken)
	if err != nil {
		return Key{}, Mark{}, err
	}
	e, err := epoch.Parse(token)
	if err != nil || e == 0 {
		return Key{}, Mark{}, &HeaderError{Name: HeaderToken, Problem: fmt.Sprintf("%.30q: must be a decimal number from 1", token)}
	}
	name, err := one(HeaderScope)
	if err != nil {
		return Key{}, Mark{}, err
	}
	s, err := scope.Parse(name)
	if err != nil {
		return Key{}, Mark{}, &HeaderError{Name: HeaderScope, Problem: err.Error()}
	}
	lease, err := one(HeaderLease)
	if err == nil && lease == "" {
		err = &HeaderError{Name: HeaderLease, Problem: "is empty"}
	}
	return Key{Scope: s}, Mark{Epoch: e, Lease: lease}, err
}

// refuse never answers with a status that client libraries repeat by
// themselves, unless the marks themselves failed.
func refuse(w http.ResponseWriter, err error) {
	var stale *StaleError
	var conflict *ConflictError
	var header *HeaderError
	status, code := http.StatusInternalServerError, "guard-failed"
	switch {
	case errors.As(err, &stale):
		status, code = http.StatusPreconditionFailed, "stale-epoch"
	case errors.As(err, &conflict):
		status, code = http.StatusPreconditionFailed, "epoch-conflict"
	case errors.As(err, &header):
		status, code = http.StatusBadRequest, "bad-request"
	case errors.Is(err, ErrNoToken):
		status, code = http.StatusPreconditionRequired, "no-token"
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{ // a caller that is gone reads nothing
		"title": "Refused by the guard", "status": status, "code": code, "detail": err.Error(),
	})
}
