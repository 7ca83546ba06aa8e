package gate

import (
	"net/http"

	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// Code is a refusal in one word; the set is DESIGN 6.8's.
type Code string

// The codes that this package and the proxy answer with.
const (
	CodeUncertain           Code = "uncertain"
	CodeLost                Code = "lost"
	CodeSuperseded          Code = "superseded"
	CodeStaleEpoch          Code = "stale-epoch"
	CodeNoHold              Code = "no-hold"
	CodeEffectUnknown       Code = "effect-unknown"
	CodeEffectRunning       Code = "effect-running"
	CodeKeyConflict         Code = "key-conflict"
	CodeBlocked             Code = "blocked"
	CodeRouteDenied         Code = "route-denied"
	CodeWrongScope          Code = "wrong-scope"
	CodeBadRequest          Code = "bad-request"
	CodeProviderUnreachable Code = "provider-unreachable"
	CodeOutcomeUnknown      Code = "outcome-unknown"
)

// Status is the HTTP status of a code: never one that SDKs retry, except the
// two gateway codes for calls that were admitted.
func (c Code) Status() int {
	switch c {
	case CodeUncertain:
		return http.StatusLocked
	case CodeLost, CodeSuperseded, CodeStaleEpoch, CodeNoHold, CodeEffectUnknown, CodeEffectRunning, CodeKeyConflict, CodeBlocked:
		return http.StatusPreconditionFailed
	case CodeRouteDenied, CodeWrongScope:
		return http.StatusForbidden
	case CodeBadRequest:
		return http.StatusBadRequest
	case CodeProviderUnreachable:
		return http.StatusBadGateway
	case CodeOutcomeUnknown:
		return http.StatusGatewayTimeout
	}
	return http.StatusPreconditionFailed
}

// Refusal is why a call does not leave. Term is zero when no hold is named.
type Refusal struct {
	Code   Code
	Detail string // for people
	Term   ownership.Term
}

// Error implements error, so that a refusal can travel through a connection's
// Write.
func (r *Refusal) Error() string { return "gate: " + string(r.Code) + ": " + r.Detail }

func noHold() *Refusal {
	return &Refusal{Code: CodeNoHold, Detail: "no hold of this sidecar has that key: acquire the scope first"}
}

func uncertain(t *ownership.Term) *Refusal {
	why := t.Reason
	if why == ownership.NoReason {
		why = ownership.AuthorityUnreachable
	}
	return &Refusal{
		Code: CodeUncertain, Term: *t,
		Detail: "ownership of " + t.Scope.String() + " cannot be confirmed (" + string(why) + "); nothing was sent",
	}
}

func lost(t *ownership.Term) *Refusal {
	r := &Refusal{Code: CodeLost, Term: *t}
	switch {
	case t.Reason == ownership.Superseded || t.Successor != nil:
		r.Code = CodeSuperseded
		r.Detail = "ownership of " + t.Scope.String() + " with epoch " + t.Epoch.String() + " was lost to another holder; nothing was sent"
		if s := t.Successor; s != nil {
			r.Detail = "ownership of " + t.Scope.String() + " with epoch " + t.Epoch.String() + " was lost: " + string(s.Holder.Kind) + " " + s.Holder.ID +
				" on " + s.Node + " has it with epoch " + s.Epoch.String() + "; nothing was sent"
		}
	default:
		why := t.Reason
		if why == ownership.NoReason {
			why = ownership.Expired
		}
		r.Detail = "ownership of " + t.Scope.String() + " with epoch " + t.Epoch.String() + " was lost (" + string(why) + "); nothing was sent"
	}
	return r
}

func settling(t *ownership.Term) *Refusal {
	return &Refusal{Code: CodeNoHold, Term: *t, Detail: "the hold on " + t.Scope.String() + " is settling: its holder asked that no effect starts any more; nothing was sent"}
}

func notOwned(t *ownership.Term) *Refusal {
	return &Refusal{Code: CodeNoHold, Term: *t, Detail: "the hold on " + t.Scope.String() + " is " + string(t.State) + ", not owned; nothing was sent"}
}
