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
	mute  map[string]chan struct{} // paths whose answer waits
}

// New makes an empty one.
func New() *Provider {
	return &Provider{guard: guard.New(guard.NewMemory()), plans: map[string]string{}, mute: map[string]chan struct{}{}}
}

// Mute makes the provider work on what comes for a path, but not answer before
// speak is called.
func (p *Provider) Mute(path string) (speak func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := make(chan struct{})
	p.mute[path] = done
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.mute, path)
		close(done)
	})
}

// answer waits until the provider may speak.
func (p *Provider) answer(r *http.Request) {
	p.mu.Lock()
	wait := p.mute[r.URL.Path]
	p.mu.Unlock()
	if wait == nil {
		return
	}
	select {
	case <-wait:
	case <-r.Context().Done():
	}
}

// ServeHTTP implements http.Handler.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		http.Error(w, "read body: "+err.Error(), http.StatusBadRequest)
		return
	}
	status, problem := p.take(r, string(body))
	p.answer(r)
	switch {
	case problem != "":
		http.Error(w, problem, status)
	case r.Method == http.MethodGet:
		fmt.Fprint(w, p.Plan(r.URL.Path))
	default:
		w.WriteHeader(status)
	}
}

// take does what is asked, if the guard lets it.
func (p *Provider) take(r *http.Request, body string) (status int, problem string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Method == http.MethodGet {
		return http.StatusOK, ""
	}
	e := Entry{Method: r.Method, Path: r.URL.Path, Body: body, Scope: r.Header.Get(guard.HeaderScope)}
	key, mark, err := guard.FromHeader(r.Header)
	e.Token = uint64(mark.Epoch)
	if err == nil {
		err = p.guard.Do(r.Context(), key, mark, func() error { return nil }) // the write below is under the same lock
	}
	e.Accepted = err == nil
	p.log = append(p.log, e)
	if !e.Accepted {
		return http.StatusConflict, err.Error()
	}
	switch r.Method {
	case http.MethodPut:
		p.plans[r.URL.Path] = e.Body
	case http.MethodDelete:
		delete(p.plans, r.URL.Path)
	default:
		return http.StatusMethodNotAllowed, "method not allowed"
	}
	return http.StatusNoContent, ""
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
