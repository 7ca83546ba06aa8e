package coordinator

import (
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
)

// commandSkew is how far a caller's clock may run ahead of the authority's.
const commandSkew = 10 * time.Minute

// checkCommandID refuses ids that are malformed, and those whose own time
// stamp is older than results are kept: what they did may be forgotten. One
// from further ahead than clocks differ would outlive the retention.
func checkCommandID(id string, now time.Time, keep time.Duration) error {
	parsed, err := ulid.ParseStrict(id)
	if err != nil {
		return &InputError{Field: "command_id", Value: clip(id), Problem: "must be a ULID"}
	}
	made := ulid.Time(parsed.Time())
	if made.After(now.Add(commandSkew)) {
		return &InputError{Field: "command_id", Value: id, Problem: fmt.Sprintf("is from the future: %s", made.UTC().Format(time.RFC3339))}
	}
	// Half of the retention is left as distance, so that a result is never
	// deleted while its id still passes.
	if now.Sub(made) > keep/2 {
		return fmt.Errorf("%w: %s is from %s, results are kept for %s", errTooOld, id, made.UTC().Format(time.RFC3339), keep)
	}
	return nil
}
