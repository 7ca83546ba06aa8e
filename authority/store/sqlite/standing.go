package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
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
	var written memoryRecord
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
		st.Generation, err = epoch.Raise(stored, max(remembered.Generation, inc.Witness, inc.Used), st.Now)
		if err != nil {
			return err
		}
		st.Raised = true
		var incarnation, renewals int64
		if err := tx.QueryRowContext(ctx, `SELECT incarnation, renewals FROM authority`).Scan(&incarnation, &renewals); err != nil {
			return translate(err)
		}
		why := cutReason(inc, remembered.cut(incarnation, renewals), stored)
		st.Cut = why != ""
		incarnation = max(incarnation, remembered.Incarnation) + 1
		written = memoryRecord{Authority: identity.System, Incarnation: incarnation, Generation: st.Generation, Renewals: renewals, Starting: true}
		if err := s.memory.save(written); err != nil {
			return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		}
		st.Identity = store.Identity{System: identity.System, Timeline: strconv.FormatInt(incarnation, 10)}
		if st.Cut && inc.Forget != nil {
			if err := s.forget(ctx, tx, st, inc, why); err != nil {
				return err
			}
		}
		return s.writeStanding(ctx, tx, inc.ID, incarnation, st)
	})
	if err != nil {
		return store.Standing{}, err
	}
	return st, s.remember(written, written.Renewals)
}

// remember notes that the file has come as far as this.
func (s *Store) remember(r memoryRecord, renewals int64) error {
	r.Renewals, r.Starting = renewals, false
	s.remembered.Store(&r)
	if err := s.memory.note(r, func(*os.File) error { return nil }); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return nil
}

// cutReason says for people what shows that the history was cut, or nothing.
func cutReason(inc store.Incarnation, behind string, stored epoch.Generation) string {
	switch {
	case inc.Recover != "":
		return "recovery was asked for: " + inc.Recover
	case behind != "": // put back, or the memory is gone
		return behind
	case (inc.Witness != 0 && inc.Witness >= stored) || inc.Used > stored:
		return fmt.Sprintf("generation %d was seen, the file had %d", max(inc.Witness, inc.Used), stored)
	}
	return ""
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
	var renewals int64
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
		if err != nil {
			return translate(err)
		}
		st.Missing = n == 0
		return translate(tx.QueryRowContext(ctx, `UPDATE authority SET renewals = renewals + 1 RETURNING renewals`).Scan(&renewals))
	})
	if err != nil {
		return store.Standing{}, err
	}
	if r := s.remembered.Load(); r != nil && !st.Missing {
		err = s.remember(*r, renewals)
	}
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
