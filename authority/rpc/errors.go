package rpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/forgeyard/concurrency/authority/access"
	"github.com/forgeyard/concurrency/authority/coordinator"
	"github.com/forgeyard/concurrency/authority/engine"
	"github.com/forgeyard/concurrency/authority/store"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/lease"
)

// toStatus translates the domain's errors, once.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	return status.Error(codeOf(err), err.Error())
}

func codeOf(err error) codes.Code {
	for _, known := range []struct {
		err  error
		code codes.Code
	}{
		{access.ErrUnauthenticated, codes.Unauthenticated},
		{access.ErrDenied, codes.PermissionDenied},
		{coordinator.ErrNotFound, codes.NotFound},
		{coordinator.ErrNoIssuer, codes.Unimplemented},
		{store.ErrTokenRefused, codes.PermissionDenied},
		{coordinator.ErrNodeRevoked, codes.PermissionDenied},
		{coordinator.ErrCertificateExpired, codes.PermissionDenied},
		{engine.ErrOverloaded, codes.ResourceExhausted},
		{engine.ErrClosed, codes.Unavailable},
		{store.ErrUnavailable, codes.Unavailable},
		{store.ErrConflict, codes.Unavailable},
		{engine.ErrCut, codes.Unavailable},
		{store.ErrOutcomeUnknown, codes.Unknown},
		{context.Canceled, codes.Canceled},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
	} {
		if errors.Is(err, known.err) {
			return known.code
		}
	}
	if coordinator.IsInput(err) {
		return codes.InvalidArgument
	}
	return codes.Internal
}

// refused is the status of a person's command that a rule refused. The answer
// travels in the details.
func refused(scope string, a lease.Answer, answer *pb.Answer) error {
	code := codes.FailedPrecondition
	if a.Reason == lease.WrongEpoch || a.Reason == lease.KeyConflict {
		code = codes.Aborted // 409 in JSON
	}
	text := fmt.Sprintf("%s: %s: %s", scope, a.Reason, a.Detail)
	if h := a.Holder; h != nil {
		text += fmt.Sprintf("; held by %s %q on node %s with epoch %d since %s",
			h.Holder.Kind, h.Holder.ID, h.Node, h.Epoch, h.Since.UTC().Format(time.RFC3339))
	}
	st, err := status.New(code, text).WithDetails(answer)
	if err != nil {
		return status.Error(code, text)
	}
	return st.Err()
}
