package coordinator

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/oklog/ulid/v2"

	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// Limits of what a request may carry, in bytes or pieces.
const (
	MaxText     = 200
	MaxReason   = 500
	MaxReceipts = 1024
	MaxKnown    = 20000
)

// parseScope reads a scope and names the field when it is wrong.
func parseScope(field, text string) (scope.Scope, error) {
	s, err := scope.Parse(text)
	var invalid *scope.InvalidError
	if errors.As(err, &invalid) {
		return scope.Scope{}, &InputError{Field: field, Value: clip(text), Problem: invalid.Field + " " + invalid.Allowed}
	}
	return s, err
}

// clip keeps a refused value short enough to be shown.
func clip(text string) string {
	if len(text) > MaxText {
		return text[:MaxText] + "..."
	}
	return text
}

func checkText(field, text string, limit int) error {
	if text == "" || len(text) > limit {
		return &InputError{Field: field, Value: clip(text), Problem: fmt.Sprintf("must be 1 to %d bytes", limit)}
	}
	return nil
}

func checkULID(field, text string) error {
	if _, err := ulid.ParseStrict(text); err != nil {
		return &InputError{Field: field, Value: clip(text), Problem: "must be a ULID"}
	}
	return nil
}

func checkHolder(h lease.Holder) error {
	kinds := []lease.HolderKind{
		lease.HolderRun, lease.HolderJobAttempt, lease.HolderController, lease.HolderDeployment,
		lease.HolderRelease, lease.HolderInfrastructureApply, lease.HolderQueueSubmission,
	}
	if !slices.Contains(kinds, h.Kind) {
		return &InputError{Field: "holder.kind", Value: clip(string(h.Kind)), Problem: fmt.Sprintf("must be one of %v", kinds)}
	}
	return checkText("holder.id", h.ID, MaxText)
}

// digest is the canonical digest of a request: what two requests with one
// command id must have in common. Nonces and fresh identifiers stay out of it.
func digest(verb string, request any) [sha256.Size]byte {
	text, err := json.Marshal(request)
	if err != nil { // requests are plain values
		text = []byte(err.Error())
	}
	return sha256.Sum256(append([]byte("forgeyard-command-v1\x00"+verb+"\x00"), text...))
}
