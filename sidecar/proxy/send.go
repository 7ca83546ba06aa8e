package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"

	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/sidecar/gate"
)

// send is one started effect. Its goroutine owns permit, body and connection;
// the caller's handler only waits, and may go away.
type send struct {
	p       *Proxy
	call    call
	permit  gate.Permit
	effect  effect.Effect
	content *body
	free    func()

	done    chan struct{} // closed when the answer's head is there, or the attempt is over
	resp    *http.Response
	link    *link
	cancel  context.CancelFunc
	uncut   func()
	refused *gate.Refusal // the third check's
	state   effect.State
	attempt effect.Attempt
}

// run makes the one attempt. It hears nothing of the caller: its context ends
// with its own limit, or with the proxy (FC-64).
func (s *send) run(method string, target *url.URL, header http.Header) {
	s.p.metrics.running.Inc()
	ctx, cancel := context.WithTimeout(s.p.ending, s.p.cfg.CallLimit)
	s.cancel = cancel
	s.attempt = s.try(ctx, method, target, header)
	state, reason := effect.Outcome(s.attempt)
	s.state = state
	s.p.cfg.Journal.Settle(s.effect.ID, state, reason, s.attempt.Status)
	s.free()
	s.content.close()
	s.p.metrics.running.Dec()
	s.p.metrics.effects.WithLabelValues(string(state)).Inc()
	s.log(reason)
	if s.resp == nil {
		s.finish(false)
	}
	close(s.done)
}

func (s *send) log(reason string) {
	e := s.effect
	s.p.cfg.Log.Info("effect", zap.Stringer("scope", e.Scope), zap.String("node", s.p.cfg.Node), zap.Stringer("epoch", e.Epoch),
		zap.String("state", string(s.state)), zap.String("effect", e.ID), zap.String("provider", e.Provider),
		zap.String("operation", e.Operation), zap.Int("status", s.attempt.Status), zap.String("reason", reason))
}

// try dials, binds the connection to the permit and sends once.
func (s *send) try(ctx context.Context, method string, target *url.URL, header http.Header) effect.Attempt {
	l, err := s.call.upstream.get(ctx, s.call.op.Safety)
	if err != nil {
		return effect.Attempt{Sent: effect.NotSent, Cause: cause(err)}
	}
	s.link = l
	l.conn.begin(s.permit)
	s.uncut = s.p.cfg.Gate.OnCut(s.permit.Key(), l.conn.cut)
	go s.watchDeadline(ctx)
	// The URL's scheme is http: TLS was done by the dialer.
	u := *target
	u.Scheme = "http"
	req := (&http.Request{
		Method: method, URL: &u, Host: target.Host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: s.content.reader(), ContentLength: s.content.size,
	}).WithContext(ctx)
	resp, err := l.client.RoundTrip(req)
	if err != nil {
		var written int64
		if written, s.refused = l.conn.verdict(); written == 0 {
			return effect.Attempt{Sent: effect.NotSent, Cause: cause(err)}
		}
		return effect.Attempt{Sent: effect.Partly, Cause: cause(err)}
	}
	s.resp = resp
	return effect.Attempt{Sent: effect.Answered, Status: resp.StatusCode}
}

// cause is an error in words that hold no address and no key.
func cause(err error) string {
	var refused *gate.Refusal
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &refused):
		return string(refused.Code)
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "the sidecar stopped"
	case errors.Is(err, net.ErrClosed):
		return "cut"
	case errors.As(err, &dns):
		return "name not resolved"
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return "closed by the provider"
	case errors.As(err, &op):
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

// deliver waits for the answer and passes it on. A caller that leaves changes
// nothing: the effect goes on to its outcome.
func (s *send) deliver(w http.ResponseWriter, r *http.Request) {
	select {
	case <-s.done:
	case <-r.Context().Done():
		rest := func() {
			<-s.done
			s.discard()
		}
		if !s.p.start(rest) {
			rest()
		}
		return
	}
	if s.resp == nil {
		s.p.failed(w, r, s)
		return
	}
	if r.Context().Err() != nil {
		s.discard()
		return
	}
	h := w.Header()
	for name, values := range incoming(s.resp.Header) {
		h[name] = values
	}
	h.Set(HeaderEffect, s.effect.ID)
	if why := s.permit.Check(); why != nil {
		h.Set(HeaderOwnership, string(why.Code)) // it was lost while the provider worked
	}
	w.WriteHeader(s.resp.StatusCode)
	_, err := io.Copy(flusher{w}, s.resp.Body)
	s.resp.Body.Close()
	for name, values := range incoming(s.resp.Trailer) {
		h[http.TrailerPrefix+name] = values
	}
	s.finish(err == nil)
	if err != nil {
		panic(http.ErrAbortHandler) // the caller must see that the answer is not whole
	}
}

// failed answers for an attempt that has no answer.
func (p *Proxy) failed(w http.ResponseWriter, r *http.Request, s *send) {
	why := &gate.Refusal{Term: s.permit.Term(), Code: gate.CodeOutcomeUnknown,
		Detail: "the request was sent and not answered (" + s.attempt.Cause + "); find out at the provider before you repeat it"}
	if s.attempt.Sent == effect.NotSent {
		why.Code, why.Detail = gate.CodeProviderUnreachable, "nothing was sent: "+s.attempt.Cause
		if s.refused != nil {
			why = s.refused
		}
	}
	p.metrics.refused.WithLabelValues(string(why.Code)).Inc()
	p.answer(w, r, why, s.effect.ID)
}

// discard reads the rest of an answer that nobody waits for.
func (s *send) discard() {
	if s.resp == nil {
		return
	}
	_, err := io.Copy(io.Discard, s.resp.Body)
	s.resp.Body.Close()
	s.finish(err == nil)
}

// finish gives the connection and the permit back, once.
func (s *send) finish(whole bool) {
	if s.uncut != nil {
		s.uncut()
	}
	if s.link != nil {
		if whole {
			s.call.upstream.put(s.link, s.p.cfg.Gate, s.permit.Key())
		} else {
			s.link.client.Close()
		}
	}
	s.cancel()
	s.permit.Done()
}

// flusher passes every part of an answer on at once: callers stream.
type flusher struct{ w http.ResponseWriter }

// Write implements io.Writer.
func (f flusher) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	if fl, ok := f.w.(http.Flusher); ok && err == nil {
		fl.Flush()
	}
	return n, err
}
