package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/epoch"
)

// identityColumns name the history: the cluster and its timeline. The timeline
// comes from the name of the WAL file that is being written, not from
// pg_control_checkpoint, which shows the old one until the next checkpoint
// (FC-98). On a standby this fails, as it must.
const identityColumns = `(pg_control_system()).system_identifier::text, left(pg_walfile_name(pg_current_wal_lsn()), 8)`

// prepared says whether a planned change of the database is under way.
const prepared = `(a.switchover <> '' AND a.switchover_at > clock_timestamp() - interval '10 minutes' AND a.switchover_at <= clock_timestamp() + interval '10 minutes')`

const standingQuery = `SELECT a.generation, ` + identityColumns + `, clock_timestamp(), ` + prepared + ` FROM authority a`

func scanStanding(r pgx.CollectableRow) (store.Standing, error) {
	var st store.Standing
	err := r.Scan(&st.Generation, &st.Identity.System, &st.Identity.Timeline, &st.Now, &st.Switchover)
	st.Now = st.Now.UTC()
	return st, err
}

// Enlist implements store.Store. The raise locks the scopes against every
// granting transaction before it reads anything (FC-94).
func (s *Store) Enlist(ctx context.Context, inc store.Incarnation) (store.Standing, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgetTimeout)
	defer cancel()
	var st store.Standing
	var err error
	for range attempts {
		err = s.inTransaction(ctx, func(conn *pgxpool.Conn) (*pgx.Batch, error) {
			e, err := readEnlistment(ctx, conn, inc)
			if err != nil {
				return nil, err
			}
			var writes *pgx.Batch
			st, writes, err = e.decide(inc)
			if err == nil && st.Cut && inc.Forget != nil {
				err = queueForget(ctx, conn, writes, st, inc, e.why(inc))
			}
			return writes, err
		})
		if code(err) != lockNotAvailable {
			break
		}
	}
	return st, err
}

// enlistment is what the decision about a raise looks at.
type enlistment struct {
	store.Standing
	stored store.Identity
	others int // live incarnations beside this one
}

// why says for people what shows that the history was cut.
func (e enlistment) why(inc store.Incarnation) string {
	switch {
	case inc.Recover != "":
		return "recovery was asked for: " + inc.Recover
	case e.stored.System != e.Identity.System:
		return fmt.Sprintf("the database is another one: system %s, was %s", e.Identity.System, e.stored.System)
	case e.stored.Timeline != e.Identity.Timeline:
		return fmt.Sprintf("the database is on timeline %s, was on %s", e.Identity.Timeline, e.stored.Timeline)
	}
	return fmt.Sprintf("generation %d was seen, the database had %d", max(inc.Witness, inc.Used), e.Generation)
}

func readEnlistment(ctx context.Context, conn *pgxpool.Conn, inc store.Incarnation) (enlistment, error) {
	p := &pgx.Batch{}
	p.Queue(`BEGIN`)
	p.Queue(begin)
	p.Queue(`LOCK TABLE scope IN EXCLUSIVE MODE`)
	p.Queue(`SELECT 1 FROM authority FOR UPDATE`)
	p.Queue(`SELECT a.generation, `+identityColumns+`, clock_timestamp(), `+prepared+`, a.system_id, a.timeline,
		(SELECT count(*) FROM incarnation i WHERE i.id <> $1 AND i.renewed_at > clock_timestamp() - $2::interval
		                                  AND i.renewed_at <= clock_timestamp() + $2::interval)
		FROM authority a`, inc.ID, inc.Live)
	results := conn.SendBatch(ctx, p)
	for range p.Len() - 1 {
		if _, err := results.Exec(); err != nil {
			results.Close()
			return enlistment{}, translate(err)
		}
	}
	var e enlistment
	err := results.QueryRow().Scan(&e.Generation, &e.Identity.System, &e.Identity.Timeline, &e.Now, &e.Switchover, &e.stored.System, &e.stored.Timeline, &e.others)
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	return e, translate(err)
}

// decide raises the generation when the history may have been cut, and at
// every start that sees no other live instance (Epoch 3).
func (e enlistment) decide(inc store.Incarnation) (store.Standing, *pgx.Batch, error) {
	st := e.Standing
	st.Now = st.Now.UTC()
	announced := st.Switchover && e.stored.System == st.Identity.System && e.stored.Timeline != st.Identity.Timeline
	ahead := (inc.Witness != 0 && inc.Witness >= st.Generation) || inc.Used > st.Generation
	cut := e.stored != st.Identity || ahead || inc.Recover != ""
	st.Cut = e.stored.System != "" && cut && (!announced || ahead || inc.Recover != "")
	st.Switchover = announced
	if e.others == 0 || cut {
		raised, err := epoch.Raise(st.Generation, max(inc.Witness, inc.Used), st.Now)
		if err != nil {
			return st, nil, fmt.Errorf("raise generation: %w", err)
		}
		st.Generation, st.Raised = raised, true
	}
	w := &pgx.Batch{}
	w.Queue(`UPDATE authority SET generation = $1, system_id = $2, timeline = $3, switchover = CASE WHEN $4 THEN '' ELSE switchover END`,
		int32(st.Generation), st.Identity.System, st.Identity.Timeline, announced)
	w.Queue(`DELETE FROM incarnation WHERE id <> $1 AND (renewed_at < clock_timestamp() - $2::interval OR $3)`, inc.ID, max(store.IncarnationKept, 10*inc.Live), cut)
	w.Queue(`INSERT INTO incarnation (id, renewed_at) VALUES ($1, clock_timestamp())
		ON CONFLICT (id) DO UPDATE SET renewed_at = excluded.renewed_at`, inc.ID)
	return st, w, nil
}

// Renew implements store.Store.
func (s *Store) Renew(ctx context.Context, inc store.Incarnation) (store.Standing, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	p := &pgx.Batch{}
	p.Queue(`UPDATE incarnation SET renewed_at = clock_timestamp() WHERE id = $1`, inc.ID)
	p.Queue(standingQuery)
	results := s.pool.SendBatch(ctx, p)
	defer results.Close()
	tag, err := results.Exec()
	if err != nil {
		return store.Standing{}, translate(err)
	}
	rows, err := results.Query()
	st, err := collect(rows, err, scanStanding)
	if err != nil {
		return store.Standing{}, err
	}
	if len(st) == 0 {
		return store.Standing{}, fmt.Errorf("%w: the authority's row is missing", store.ErrSchema)
	}
	st[0].Missing = tag.RowsAffected() == 0
	return st[0], nil
}
