package lease

import (
	"fmt"

	"github.com/forgeyard/concurrency/shared/effect"
)

// Quiescence is the holder's word that its gate is closed, its connections are
// cut and nothing of the lease is in flight any more. Unknown effects are ones
// whose outcome it could not learn.
type Quiescence struct {
	Unknown int
	Left    []effect.Effect // those Unknown effects, as far as they fit into a message
	Partial bool            // the holder's journal does not reach back to the grant: there may be more
}

// ReleaseRequest ends a lease by its holder.
type ReleaseRequest struct {
	Ref
	Why        EndReason // Released or CallerGone
	Quiescence Quiescence
}

// Release ends the lease that r names, on the holder's quiescence receipt,
// which waives the lock delay (DESIGN 4.6). It is accepted from an expired
// session too: Lost lets the sidecar settle and release (DESIGN 4.7). The end is clean
// when nothing is Unknown and the journal knows all of it, whether the holder asked for it or its caller died:
// the receipt says that every call was answered. A repeat answers
// AlreadyEnded and changes nothing (FC-10). A process that another one resumed
// is refused with WrongNonce: what it says of its gate is not the word of the
// one that has the session now.
func Release(f Facts, p Policy, c Case, r ReleaseRequest) (Change, Answer) {
	if refused := r.malformed(); refused != nil {
		return Change{}, *refused
	}
	s, ok := c.Sessions[r.Session]
	if !ok {
		return Change{}, reject(SessionUnknown, "session "+r.Session)
	}
	if s.Nonce != r.Nonce {
		return Change{}, reject(WrongNonce, "another process of node "+s.Node+" resumed session "+r.Session)
	}
	l, ok := c.find(r.Ref)
	if !ok {
		return Change{}, Answer{
			Code: AlreadyEnded, Epoch: c.Scope.Epoch, Version: s.Version(f.Generation),
			Detail: fmt.Sprintf("lease %s with epoch %d was not held any more", r.Lease, r.Epoch),
		}
	}
	how := ending{by: "node " + s.Node, unknown: r.Quiescence.Unknown, accounted: !r.Quiescence.Partial, clean: r.Quiescence.Unknown == 0 && !r.Quiescence.Partial}
	if how.unknown > 0 {
		how.detail = fmt.Sprintf("ended with %d unknown effects", how.unknown)
	}
	if r.Quiescence.Partial {
		how.detail = joinDetail(how.detail, "its node's journal does not reach back to the grant")
	}
	why := r.Why
	switch l.State {
	case Draining: // the first reason stands; this is the receipt it waited for
		why, how.by = l.EndReason, l.EndedBy
		how.detail = joinDetail(l.EndDetail, how.detail)
		how.clean = how.clean || why == ForcedUnreconciled
	case Granted:
		how.clean = true // nothing ran under it
	case Live, Ended:
	}
	ch := f.end(p, c, l, s, why, how)
	ch.Evidence = f.reported(l, r.Quiescence.Left)
	ended := ch.Leases[0]
	return ch, Answer{Code: Done, Lease: &ended, Epoch: c.Scope.Epoch, Version: ch.Sessions[0].Version(f.Generation)}
}

func (r ReleaseRequest) malformed() *Answer {
	var a Answer
	switch {
	case r.Why != Released && r.Why != CallerGone:
		a = reject(InvalidRequest, fmt.Sprintf("why %q: a holder may give %s or %s", r.Why, Released, CallerGone))
	case r.Quiescence.Unknown < 0:
		a = reject(InvalidRequest, fmt.Sprintf("unknown effects %d: must not be negative", r.Quiescence.Unknown))
	default:
		return nil
	}
	return &a
}

func joinDetail(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
