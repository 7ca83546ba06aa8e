package sqlite

import (
	"context"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// forget writes what a cut does to everything that is there.
func (s *Store) forget(ctx context.Context, tx writeTx, st store.Standing, inc store.Incarnation, why string) error {
	l := store.Loaded{
		Now: st.Now, Generation: st.Generation, Identity: st.Identity,
		Scopes: map[scope.ID]lease.Record{}, Leases: map[scope.ID][]lease.Lease{},
	}
	rows, err := tx.QueryContext(ctx, `SELECT `+recordColumns+` FROM scope WHERE epoch > 0`)
	records, err := collect(rows, err, scanRecord)
	if err != nil {
		return err
	}
	for _, r := range records {
		l.Scopes[r.Scope.ID()] = r
	}
	rows, err = tx.QueryContext(ctx, `SELECT `+leaseColumns+` FROM lease l WHERE l.state <> 'ended' ORDER BY l.epoch`)
	leases, err := collect(rows, err, scanLease)
	if err != nil {
		return err
	}
	for _, held := range leases {
		id := held.Scope.ID()
		l.Leases[id] = append(l.Leases[id], held)
	}
	if l.Sessions, err = lockSessions(ctx, tx, store.Batch{}, l.Leases); err != nil {
		return err
	}
	changes, err := inc.Forget(l, why)
	if err != nil {
		return err
	}
	return s.save(ctx, tx, store.Batch{}, l, changes)
}

// PrepareSwitchover implements store.Store: one file has no timelines.
func (s *Store) PrepareSwitchover(context.Context, string) error { return store.ErrUnsupported }
