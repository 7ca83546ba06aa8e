package provider

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
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
	mu      sync.Mutex
	highest map[string]uint64 // by scope
	plans   map[string]string
	log     []Entry
}

// New makes an empty one.
func New() *Provider { return &Provider{highest: map[string]uint64{}, plans: map[string]string{}} }

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
	e := Entry{Method: r.Method, Path: r.URL.Path, Body: string(body), Scope: r.Header.Get("Fencing-Scope")}
	e.Token, err = strconv.ParseUint(r.Header.Get("Fencing-Token"), 10, 64)
	e.Accepted = err == nil && e.Scope != "" && e.Token >= p.highest[e.Scope]
	p.log = append(p.log, e)
	if !e.Accepted {
		http.Error(w, "token is lower than one seen, or missing", http.StatusConflict)
		return
	}
	p.highest[e.Scope] = e.Token
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
