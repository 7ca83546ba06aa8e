package postgres

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forgeyard/concurrency/authority/store"
)

// The SQLSTATEs that mean something to this package.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
	uniqueViolation      = "23505"
	undefinedTable       = "42P01"
)

// code returns the SQLSTATE of a server's error, or "".
func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// translate turns the driver's errors into the contract's, once.
func translate(err error) error {
	if err == nil {
		return nil
	}
	switch code(err) {
	case serializationFailure, deadlockDetected, lockNotAvailable, uniqueViolation:
		return fmt.Errorf("%w: %w", store.ErrConflict, err)
	default:
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
}

// commitError translates an error of the pipeline that ends in COMMIT: when
// the server refused a statement nothing was committed; when the connection
// failed nobody knows.
func commitError(err error) error {
	if code(err) != "" {
		return translate(err)
	}
	return fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, err)
}
