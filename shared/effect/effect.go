package effect

import (
	"time"

	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/scope"
)

// State is where an effect stands.
type State string

// The states of DESIGN 3.
const (
	Planned    State = "planned"
	Started    State = "started"
	Succeeded  State = "succeeded"
	Failed     State = "failed"
	Unknown    State = "unknown"
	Reconciled State = "reconciled"
)

// Safety is the declared retry safety of an operation. Nothing retries a
// mutation generically.
type Safety string

// The classes of DESIGN 3, from the safest down.
const (
	Idempotent         Safety = "idempotent"
	ProviderIdempotent Safety = "provider-idempotent"
	InspectBeforeRetry Safety = "inspect-before-retry"
	ManualOnly         Safety = "manual-only" // the default for what no route names
)

// Effect is one outgoing call. ID is a ULID; the provider's token derives from
// it, so that it is stable over retries and restarts (FC-69).
type Effect struct {
	ID        string      `json:"id"`
	Lease     string      `json:"lease"`
	Scope     scope.Scope `json:"scope"`
	Epoch     epoch.Epoch `json:"epoch"`
	Provider  string      `json:"provider"`
	Operation string      `json:"operation"`
	Safety    Safety      `json:"safety"`
	Key       string      `json:"key,omitempty"` // the caller's Idempotency-Key
	Digest    [32]byte    `json:"digest"`        // of the request
	State     State       `json:"state"`
	Reason    string      `json:"reason,omitempty"`   // refusal code, or why the outcome is unknown
	Status    int         `json:"status,omitempty"`   // of the provider's answer
	Refused   bool        `json:"refused,omitempty"`  // an attempt that never had an intent: no execution of its key
	Observed  State       `json:"observed,omitempty"` // of a Reconciled one: succeeded or failed, as somebody saw
	StartedAt time.Time   `json:"started_at"`         // wall clock, for people
	SettledAt time.Time   `json:"settled_at"`
}

// Open reports whether the effect may still be running or was never settled.
func (e Effect) Open() bool { return e.State == Planned || e.State == Started }
