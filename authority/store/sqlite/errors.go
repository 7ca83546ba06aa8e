package sqlite

import (
	"database/sql"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/forgeyard/concurrency/authority/store"
)

// translate turns the driver's errors into the contract's, once.
func translate(err error) error {
	var coded *sqlite.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrConnDone):
		return fmt.Errorf("%w: closed", store.ErrUnavailable)
	case !errors.As(err, &coded):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	switch coded.Code() & 0xff { // the primary code of an extended one
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_CONSTRAINT:
		return fmt.Errorf("%w: %w", store.ErrConflict, err)
	default:
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
}
