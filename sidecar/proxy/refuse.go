package proxy

import (
	"encoding/json"
	"io"
	"log"
	"net/http"

	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/sidecar/gate"
)

// drainLimit is how much of a refused body is read, so that the caller sees
// the refusal instead of a reset; above it the connection is closed.
const drainLimit = 4 << 20

// problem is the body of a refusal (RFC 9457).
type problem struct {
	Type   string  `json:"type"`
	Title  string  `json:"title"`
	Status int     `json:"status"`
	Detail string  `json:"detail"`
	Code   string  `json:"code"`
	Scope  string  `json:"scope,omitempty"`
	Epoch  string  `json:"epoch,omitempty"`
	Lease  string  `json:"lease,omitempty"`
	State  string  `json:"state,omitempty"`
	Reason string  `json:"reason,omitempty"`
	Effect string  `json:"effect,omitempty"`
	Holder *holder `json:"holder,omitempty"`
}

type holder struct {
	Kind  string `json:"kind"`
	ID    string `json:"id"`
	Node  string `json:"node"`
	Epoch string `json:"epoch"`
}

func problemOf(r *gate.Refusal) problem {
	t := r.Term
	p := problem{
		Type: "https://forgeyard.dev/problems/" + string(r.Code), Title: title(r.Code), Status: r.Code.Status(),
		Detail: r.Detail, Code: string(r.Code), Lease: t.Lease, State: string(t.State), Reason: string(t.Reason),
	}
	if !t.Scope.IsZero() {
		p.Scope, p.Epoch = t.Scope.String(), t.Epoch.String()
	}
	if s := t.Successor; s != nil {
		p.Holder = &holder{Kind: string(s.Holder.Kind), ID: s.Holder.ID, Node: s.Node, Epoch: s.Epoch.String()}
	}
	return p
}

func title(c gate.Code) string {
	switch c {
	case gate.CodeUncertain:
		return "Ownership cannot be confirmed"
	case gate.CodeLost, gate.CodeSuperseded, gate.CodeStaleEpoch:
		return "Ownership was lost"
	case gate.CodeNoHold:
		return "No hold"
	case gate.CodeEffectUnknown:
		return "An earlier attempt has an unknown outcome"
	case gate.CodeEffectRunning:
		return "An earlier attempt is still running"
	case gate.CodeKeyConflict:
		return "The idempotency key belongs to another request"
	case gate.CodeBlocked:
		return "The scope is blocked"
	case gate.CodeRouteDenied, gate.CodeWrongScope:
		return "Not allowed here"
	case gate.CodeBadRequest:
		return "Malformed request"
	case gate.CodeProviderUnreachable:
		return "The provider was not reached"
	case gate.CodeOutcomeUnknown:
		return "The outcome is unknown"
	}
	return string(c)
}

// refuse answers a request that does not leave, and leaves a trace of it: in
// the log, the metrics and, when a hold is known, the journal.
func (p *Proxy) refuse(w http.ResponseWriter, r *http.Request, c call, why *gate.Refusal) {
	p.trace(r, c, why)
	if t := why.Term; !t.Scope.IsZero() && c.upstream != nil {
		p.cfg.Journal.Refuse(effect.Effect{
			ID: p.id(), Lease: t.Lease, Scope: t.Scope, Epoch: t.Epoch, Provider: c.upstream.provider.Name,
			Operation: c.op.Name, Safety: c.op.Safety, Key: callerKey(r),
		}, string(why.Code))
	}
	p.answer(w, r, why, "")
}

// trace logs and counts a refusal.
func (p *Proxy) trace(r *http.Request, c call, why *gate.Refusal) {
	p.metrics.refused.WithLabelValues(string(why.Code)).Inc()
	fields := []zap.Field{
		zap.String("code", string(why.Code)), zap.String("detail", why.Detail), zap.String("node", p.cfg.Node),
		zap.String("method", r.Method), zap.String("operation", c.op.Name),
	}
	t := why.Term
	if t.Scope.IsZero() {
		p.cfg.Log.Warn("call refused", fields...)
		return
	}
	p.cfg.Log.Warn("call refused", append(fields,
		zap.Stringer("scope", t.Scope), zap.Stringer("epoch", t.Epoch), zap.String("state", string(t.State)), zap.String("lease", t.Lease))...)
}

// answer writes a refusal. The rest of the body is read up to a limit, so that
// the caller can read it.
func (p *Proxy) answer(w http.ResponseWriter, r *http.Request, why *gate.Refusal, effectID string) {
	body := problemOf(why)
	body.Effect = effectID
	text, err := json.Marshal(body)
	if err != nil {
		panic("proxy: encode refusal: " + err.Error()) // texts and numbers always encode
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set(HeaderRefusal, string(why.Code))
	if effectID != "" {
		h.Set(HeaderEffect, effectID)
	}
	// A caller that waits for 100 Continue must not be sent one by a read.
	if r.Header.Get("Expect") == "" {
		if n, _ := io.CopyN(io.Discard, r.Body, drainLimit); n == drainLimit {
			h.Set("Connection", "close")
		}
	}
	w.WriteHeader(body.Status)
	_, _ = w.Write(append(text, '\n')) // a caller that is gone reads nothing
}

// stdLog is the http.Server's own log. It may quote a request line, which
// holds the key: only its level and kind are kept.
func stdLog(l *zap.Logger) *log.Logger {
	return log.New(redacted{l.Named("proxy")}, "", 0)
}

type redacted struct{ log *zap.Logger }

// Write implements io.Writer.
func (r redacted) Write(text []byte) (int, error) {
	r.log.Debug("http server", zap.Int("message_bytes", len(text)))
	return len(text), nil
}
