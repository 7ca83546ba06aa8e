package proxy

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/sidecar/gate"
)

// beginTimeout bounds the wait for the disk; an intent that takes longer is
// not sent.
const beginTimeout = 10 * time.Second

func (p *Proxy) id() string {
	return ulid.MustNew(ulid.Timestamp(p.cfg.Clock.Now()), rand.Reader).String()
}

// callID is a caller's key where it counts.
type callID struct{ scope, provider, key string }

// mutate carries one mutation: admission, body, intent, second look, send.
func (p *Proxy) mutate(w http.ResponseWriter, r *http.Request, c call) {
	permit, refused := p.cfg.Gate.Admit(c.key)
	if refused != nil {
		p.refuse(w, r, c, refused)
		return
	}
	release := permit.Done // until somebody else has the permit
	defer func() { release() }()
	content, refused := p.receive(w, r, c, permit)
	if refused != nil {
		p.refuse(w, r, c, refused)
		return
	}
	e := p.intent(r, c, permit, content)
	free, refused := p.unique(w, r, e)
	if refused != nil {
		content.close()
		if refused.Code != "" {
			refused.Term = permit.Term()
			p.refuse(w, r, c, refused)
		}
		return
	}
	if refused := p.record(e, permit); refused != nil {
		free()
		content.close()
		p.trace(r, c, refused)
		p.answer(w, r, refused, e.ID)
		return
	}
	s := &send{p: p, call: c, permit: permit, effect: e, content: content, free: free, done: make(chan struct{})}
	header := outgoing(r.Header, permit.Term(), e.ID, e.Key)
	if !p.start(func() { s.run(r.Method, c.target(r), header) }) {
		p.cfg.Journal.Settle(e.ID, effect.Failed, "not-sent: the sidecar stops", 0)
		free()
		content.close()
		p.answer(w, r, &gate.Refusal{Code: gate.CodeUncertain, Detail: "the sidecar stops; nothing was sent", Term: permit.Term()}, e.ID)
		return
	}
	release = func() {} // the send has it now
	s.deliver(w, r)
}

// receive reads the body. The hold's end ends it too: a caller that sends
// slowly must not keep a hold that was cut.
func (p *Proxy) receive(w http.ResponseWriter, r *http.Request, c call, permit gate.Permit) (*body, *gate.Refusal) {
	conn := http.NewResponseController(w)
	uncut := p.cfg.Gate.OnCut(permit.Key(), func() {
		_ = conn.SetReadDeadline(time.Unix(1, 0)) // long over; a closed connection needs none
	})
	content, err := p.readBody(r, c)
	uncut()
	if err == nil {
		return content, nil
	}
	if refused := permit.Check(); refused != nil {
		return nil, refused
	}
	if errors.Is(err, errSpool) {
		p.cfg.Log.Error("spool body", zap.String("node", p.cfg.Node), zap.Error(err))
		return nil, &gate.Refusal{Code: gate.CodeUncertain, Detail: "the body could not be kept on disk; nothing was sent", Term: permit.Term()}
	}
	return nil, &gate.Refusal{Code: gate.CodeBadRequest, Detail: err.Error(), Term: permit.Term()}
}

func (p *Proxy) intent(r *http.Request, c call, permit gate.Permit, content *body) effect.Effect {
	t := permit.Term()
	return effect.Effect{
		ID: p.id(), Lease: t.Lease, Scope: t.Scope, Epoch: t.Epoch, Provider: c.upstream.provider.Name, Operation: c.op.Name,
		Safety: c.op.Safety, Key: callerKey(r), Digest: content.digest, State: effect.Started, StartedAt: p.cfg.Clock.Now(),
	}
}

// unique lets one execution of a caller's key through (I7). A refusal with an
// empty code says that the stored outcome was the answer.
func (p *Proxy) unique(w http.ResponseWriter, r *http.Request, e effect.Effect) (free func(), refused *gate.Refusal) {
	if e.Key == "" {
		return func() {}, nil
	}
	id := callID{e.Scope.String(), e.Provider, e.Key}
	p.mu.Lock()
	defer p.mu.Unlock()
	if earlier, known := p.cfg.Journal.Find(id.scope, id.provider, id.key); known {
		if refused := judgeRepeat(earlier, e.Digest); refused != nil {
			return nil, refused
		}
		if executed(earlier) {
			replay(w, earlier)
			return nil, &gate.Refusal{}
		}
		// It did nothing: the key is free again.
	}
	if _, running := p.running[id]; running {
		return nil, &gate.Refusal{Code: gate.CodeEffectRunning, Detail: "an attempt with this idempotency key is under way"}
	}
	p.running[id] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.running, id)
	}, nil
}

// executed reports whether a settled effect answers for its key: it does not
// when it was never sent, or when somebody saw that it had not happened.
func executed(e effect.Effect) bool {
	if e.State == effect.Reconciled {
		return e.Observed != effect.Failed
	}
	return e.State != effect.Failed || e.Status != 0
}

// judgeRepeat decides about a second request with a key that was executed.
func judgeRepeat(earlier effect.Effect, digest [sha256.Size]byte) *gate.Refusal {
	switch {
	case earlier.Digest != digest:
		return &gate.Refusal{Code: gate.CodeKeyConflict, Detail: "effect " + earlier.ID + " had this idempotency key with another request"}
	case earlier.Open():
		return &gate.Refusal{Code: gate.CodeEffectRunning, Detail: "effect " + earlier.ID + " is still running"}
	case earlier.State == effect.Unknown:
		return &gate.Refusal{Code: gate.CodeEffectUnknown, Detail: "effect " + earlier.ID + " has an unknown outcome (" + earlier.Reason + "): find out at the provider before you repeat it"}
	}
	return nil
}

// replay answers with the stored outcome; the provider's body was not kept.
func replay(w http.ResponseWriter, e effect.Effect) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(HeaderEffect, e.ID)
	w.Header().Set("Idempotent-Replayed", "true")
	status := cmp.Or(e.Status, http.StatusOK) // somebody saw that it had happened
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{ // a caller that is gone reads nothing
		"effect": e.ID, "state": e.State, "status": status, "replayed": true,
	})
}

// record makes the intent durable and looks a second time. What is refused
// after that is Failed, never sent.
func (p *Proxy) record(e effect.Effect, permit gate.Permit) *gate.Refusal {
	ctx, cancel := context.WithTimeout(context.Background(), beginTimeout)
	defer cancel()
	if err := p.cfg.Journal.Begin(ctx, e); err != nil {
		p.cfg.Journal.Settle(e.ID, effect.Failed, "not-sent: journal", 0)
		p.cfg.Log.Error("journal intent", zap.Stringer("scope", e.Scope), zap.Stringer("epoch", e.Epoch), zap.Error(err))
		return &gate.Refusal{Code: gate.CodeUncertain, Term: permit.Term(), Detail: "the intent could not be made durable; nothing was sent"}
	}
	if refused := permit.Check(); refused != nil {
		p.cfg.Journal.Settle(e.ID, effect.Failed, "not-sent: "+string(refused.Code), 0)
		return refused
	}
	if permit.Term().Confirm {
		return p.confirm(ctx, e, permit)
	}
	return nil
}

// confirm makes the effect known to the authority before it leaves. Refused or
// unanswered, it does not leave; the look inside the first write comes still.
func (p *Proxy) confirm(ctx context.Context, e effect.Effect, permit gate.Permit) *gate.Refusal {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.TTL/4)
	defer cancel()
	err := p.cfg.Confirmer.Confirm(ctx, permit.Term(), e)
	if err == nil {
		return nil
	}
	p.cfg.Journal.Settle(e.ID, effect.Failed, "not-sent: not confirmed", 0)
	p.cfg.Log.Warn("effect not confirmed", zap.Stringer("scope", e.Scope), zap.String("node", p.cfg.Node), zap.Stringer("epoch", e.Epoch),
		zap.String("effect", e.ID), zap.Error(err))
	return &gate.Refusal{
		Code: gate.CodeUncertain, Term: permit.Term(),
		Detail: "the authority did not confirm the effect, which its scope demands; nothing was sent",
	}
}
