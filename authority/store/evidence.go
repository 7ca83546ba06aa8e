package store

import (
	"context"
	"errors"

	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// ErrUnsupported says that this store has no such operation.
var ErrUnsupported = errors.New("store: not supported by this store")

// Evidence keeps what sidecars report of their effects.
type Evidence interface {
	// Report stores what a node says of effects under leases of its own; what
	// names another node's lease is left out. A report of a state that is less
	// certain than the stored one changes nothing (lease.Evidence.Newer), so
	// that reports may be repeated and come late.
	Report(ctx context.Context, node string, effects []effect.Effect) error

	// Confirm stores an effect that is about to be sent, if its lease is live
	// and its session alive, in one step against every transaction that ends
	// the lease. It answers false when it is not: nothing may be sent then.
	Confirm(ctx context.Context, c Confirmation) (bool, error)

	// Effects lists effects of a scope, the open and unknown ones first, then
	// newest first. A report of an open effect whose lease has ended and is
	// settled is out of date, and left out: a receipt has said more since.
	Effects(ctx context.Context, s scope.Scope, limit int) ([]lease.Evidence, error)

	// Unsettled lists leases that ended uncleanly and are not settled: of one
	// scope, or of every one when s is zero.
	Unsettled(ctx context.Context, s scope.Scope, limit int) ([]lease.Lease, error)
}

// Confirmation asks whether one effect may be sent.
type Confirmation struct {
	Ref    lease.Ref
	Node   string
	Effect effect.Effect
}

// Reported makes evidence of a node's report; what is stored of scope and
// epoch comes from the lease's own row.
func Reported(node string, effects []effect.Effect) []lease.Evidence {
	out := make([]lease.Evidence, len(effects))
	for i, e := range effects {
		out[i] = lease.Evidence{Effect: e, Node: node}
	}
	return out
}
