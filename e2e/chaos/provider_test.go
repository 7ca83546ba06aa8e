package chaos_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/forgeyard/concurrency/e2e/history"
	"github.com/forgeyard/concurrency/shared/guard"
)

// upstream is one provider with a guarded half, below /guarded, and one that
// takes whatever comes.
type upstream struct {
	guard   *guard.Guard
	history *history.History
}

// ServeHTTP implements http.Handler.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := func() time.Duration { return u.history.At(time.Now()) }
	seen := history.Write{Guarded: strings.HasPrefix(r.URL.Path, "/guarded/"), Arrived: now()}
	key, mark, err := guard.FromHeader(r.Header)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	seen.Scope, seen.Token, seen.Lease, seen.LastByte = r.Header.Get(guard.HeaderScope), uint64(mark.Epoch), mark.Lease, seen.Arrived
	buffer := make([]byte, 16<<10)
	for {
		n, err := r.Body.Read(buffer)
		if n > 0 {
			seen.LastByte = now()
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil { // cut: what came has come
			seen.Finished, seen.Cut = now(), true
			u.history.Wrote(seen)
			http.Error(w, "the request broke off", http.StatusBadRequest)
			return
		}
	}
	seen.Accepted = true
	if seen.Guarded {
		err = u.guard.Do(r.Context(), key, mark, func() error { return nil })
		seen.Accepted = err == nil
	}
	seen.Finished = now()
	u.history.Wrote(seen)
	if !seen.Accepted {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
