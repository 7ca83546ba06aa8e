package provider

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/forgeyard/concurrency/shared/guard"
)

// Entry is one request that came in.
type Entry struct {
	Method, Path, Body string
	Scope              string
	Token              uint64
	Accepted           bool
}

// Provider holds plans by name. It implements http.Handler:
// PUT, GET and DELETE /plans/{name}.
type Provider struct {
	guard *guard.Guard

	mu    sync.Mutex
	plans map[string]string
	log   []Entry
}

// New makes an empty one.
func New() *Provider {
	return &Provider{guard: guard.New(guard.NewMemory()), plans: map[string]string{}}
}

// ServeHTTP implements http.Handler.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		http.Error(w, "read body: "+err.Error(), http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Method == http.MethodGet {
		fmt.Fprint(w, p.plans[r.URL.Path])
		return
	}
	e := Entry{Method: r.Method, Path: r.URL.Path, Body: string(body), Scope: r.Header.Get(guard.HeaderScope)}
	key, mark, err := guard.FromHeader(r.Header)
	e.Token = uint64(mark.Epoch)
	if err == nil {
		err = p.guard.Do(r.Context(), key, mark, func() error { return nil }) // the write below is under the same lock
	}
	e.Accepted = err == nil
	p.log = append(p.log, e)
	if !e.Accepted {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	switch r.Method {
	case http.MethodPut:
		p.plans[r.URL.Path] = e.Body
	case http.MethodDelete:
		delete(p.plans, r.URL.Path)
	default:
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// Plan returns what is stored under a path.
func (p *Provider) Plan(path string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.plans[path]
}

// Log returns every mutation that came in.
func (p *Provider) Log() []Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.log)
}

// Judge is the oracle: it returns an error when a request with a token lower
// than one seen before was accepted, or when one came at all and must is set.
func Judge(log []Entry, noneMayArrive bool) error {
	highest := map[string]uint64{}
	for i, e := range log {
		if e.Token < highest[e.Scope] && (e.Accepted || noneMayArrive) {
			return fmt.Errorf("entry %d: %s %s came with token %d after %d", i, e.Method, e.Path, e.Token, highest[e.Scope])
		}
		highest[e.Scope] = max(highest[e.Scope], e.Token)
	}
	return nil
}
