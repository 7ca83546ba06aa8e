package localapi

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/sidecar/keeper"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// inputError names the field, the value and what is allowed.
type inputError struct{ field, value, allowed string }

// Error implements error.
func (e *inputError) Error() string { return fmt.Sprintf("%s %q: %s", e.field, e.value, e.allowed) }

// refusedError carries the last event of a request that was not granted.
type refusedError struct{ event *pb.HoldEvent }

// Error implements error: a sentence with the holder and what to do.
func (e *refusedError) Error() string {
	ev := e.event
	text := ev.GetScope() + " was not acquired: " + ev.GetDetail()
	if h := ev.GetHolder(); h != nil {
		text = fmt.Sprintf("%s is held by %s %s on node %s with epoch %d since %s",
			ev.GetScope(), h.GetHolder().GetKind(), h.GetHolder().GetId(), h.GetNode(), h.GetEpoch(), h.GetSince().AsTime().Format("15:04:05 MST"))
		if h.GetAlive() {
			text += "; its node is alive"
		} else {
			text += "; its node is silent, the scope becomes free when its time is over"
		}
		text += ". Wait for it (wait), or see `forgeyard concurrency explain " + ev.GetScope() + "`"
	}
	return text
}

// toStatus translates domain errors, once.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	var refused *refusedError
	if errors.As(err, &refused) {
		st, detailErr := status.New(codes.FailedPrecondition, err.Error()).WithDetails(protoadapt.MessageV1Of(refused.event))
		if detailErr != nil {
			return status.Error(codes.FailedPrecondition, err.Error())
		}
		return st.Err()
	}
	return status.Error(codeOf(err), err.Error())
}

func codeOf(err error) codes.Code {
	var input *inputError
	var badScope *scope.InvalidError
	var unresolved *unresolvedError
	var malformed *keeper.MalformedError
	switch {
	case errors.As(err, &input), errors.As(err, &badScope), errors.Is(err, ownership.ErrKey):
		return codes.InvalidArgument
	case errors.Is(err, keeper.ErrNoHold):
		return codes.NotFound
	case errors.As(err, &unresolved):
		return codes.FailedPrecondition
	case errors.As(err, &malformed):
		return codes.InvalidArgument
	case errors.Is(err, keeper.ErrStopped), errors.Is(err, keeper.ErrUnreachable):
		return codes.Unavailable
	case errors.Is(err, errNoPeer):
		return codes.Unauthenticated
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	}
	return codes.Internal
}
