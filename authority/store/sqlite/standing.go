package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
)

// standing reads who the file is and its generation. The incarnation counter
// stands for the timeline: it rises with every start.
func standing(ctx context.Context, q querier) (store.Identity, epoch.Generation, error) {
	var (
		id          string
		incarnation int64
		generation  epoch.Generation
	)
	err := q.QueryRowContext(ctx, selectStanding).Scan(&id, &incarnation, &generation)
	return store.Identity{System: id, Timeline: strconv.FormatInt(incarnation, 10)}, generation, translate(err)
}

// Enlist implements store.Store. One process has the file, so no other
// incarnation is ever live and every start raises the generation (Epoch 3),
// above the outside memory too. The memory is written before the commit: it
// may run ahead, never behind.
func (s *Store) Enlist(ctx context.Context, inc store.Incarnation) (store.Standing, error) {
	var st store.Standing
	err := s.inWrite(ctx, func(ctx context.Context, tx writeTx) error {
		remembered, err := s.memory.load()
		if err != nil {
			return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		}
		identity, stored, err := standing(ctx, tx)
		if err != nil {
			return err
		}
		if remembered.Authority != "" && remembered.Authority != identity.System {
			return fmt.Errorf("%w: outside memory %s belongs to authority %s, the file is %s", store.ErrUnavailable, s.cfg.MemoryPath, remembered.Authority, identity.System)
		}
		st.Now = s.now()
		st.Generation, err = epoch.Raise(stored, max(remembered.Generation, inc.Witness), st.Now)
		if err != nil {
			return err
		}
		st.Raised = true
		var incarnation int64
		if err := tx.QueryRowContext(ctx, `SELECT incarnation FROM authority`).Scan(&incarnation); err != nil {
			return translate(err)
		}
		st.Cut = remembered.Incarnation != incarnation // put back, or the memory is gone
		incarnation = max(incarnation, remembered.Incarnation) + 1
		if err := s.memory.save(memoryRecord{Authority: identity.System, Incarnation: incarnation, Generation: st.Generation}); err != nil {
			return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		}
		st.Identity = store.Identity{System: identity.System, Timeline: strconv.FormatInt(incarnation, 10)}
		return s.writeStanding(ctx, tx, inc.ID, incarnation, st)
	})
	return st, err
}

func (s *Store) writeStanding(ctx context.Context, tx writeTx, id string, incarnation int64, st store.Standing) error {
	if _, err := tx.ExecContext(ctx, `UPDATE authority SET generation = ?, incarnation = ?`, st.Generation, incarnation); err != nil {
		return translate(err)
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM incarnation`); err != nil {
		return translate(err)
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO incarnation (id, renewed_at) VALUES (?, ?)`, id, micros(st.Now))
	return translate(err)
}

// Renew implements store.Store.
func (s *Store) Renew(ctx context.Context, inc store.Incarnation) (store.Standing, error) {
	var st store.Standing
	err := s.inWrite(ctx, func(ctx context.Context, tx writeTx) error {
		var err error
		if st.Identity, st.Generation, err = standing(ctx, tx); err != nil {
			return err
		}
		st.Now = s.now()
		done, err := tx.ExecContext(ctx, `UPDATE incarnation SET renewed_at = ? WHERE id = ?`, micros(st.Now), inc.ID)
		if err != nil {
			return translate(err)
		}
		n, err := done.RowsAffected()
		st.Missing = n == 0
		return translate(err)
	})
	return st, err
}

// Heartbeat implements store.Store. The one writer never finds a locked row,
// so nothing is ever Skipped.
func (s *Store) Heartbeat(ctx context.Context, beats []lease.Beat, _ bool) (store.Beats, error) {
	out := store.Beats{Pulses: make([]store.Pulse, len(beats))}
	err := s.inWrite(ctx, func(ctx context.Context, tx writeTx) error {
		var facts lease.Facts
		var err error
		if out.Identity, facts.Generation, err = standing(ctx, tx); err != nil {
			return err
		}
		out.Now = s.now()
		facts.Now = out.Now
		for i, b := range beats {
			if out.Pulses[i].Answer, err = beat(ctx, tx, facts, b); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

func beat(ctx context.Context, tx writeTx, f lease.Facts, b lease.Beat) (lease.Answer, error) {
	s, err := scanSession(tx.QueryRowContext(ctx, sessionByID, b.Session))
	if err == sql.ErrNoRows {
		return lease.Answer{Code: lease.Rejected, Reason: lease.SessionUnknown, Detail: "session " + b.Session}, nil
	}
	if err != nil {
		return lease.Answer{}, translate(err)
	}
	next, answer := lease.Heartbeat(f, s, b)
	if answer.Code != lease.Renewed {
		return answer, nil
	}
	_, err = tx.ExecContext(ctx, renewSession,
		micros(next.ExpiresAt), next.Applied.Generation, next.Applied.Version, next.ID)
	return answer, translate(err)
}
