package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/lease"
)

// renew is lease.Heartbeat in SQL: sorted locks, then one update of the rows
// that are this process's and have not ended. What a sidecar claims to have
// applied is believed up to what the row has.
const (
	renewHead = `WITH beat AS (
			SELECT * FROM unnest($1::text[], $2::text[], $3::integer[], $4::bigint[]) AS t(id, nonce, ag, av)
		), locked AS (
			SELECT s.id FROM session s WHERE s.id = ANY($1::text[]) ORDER BY s.id FOR UPDATE`
	renewTail = `
		)
		UPDATE session s SET expires_at = clock_timestamp() + s.ttl,
			applied_generation = CASE WHEN (b.ag, b.av) <= (a.generation, s.set_version) AND (b.ag, b.av) > (s.applied_generation, s.applied_version)
				THEN b.ag ELSE s.applied_generation END,
			applied_version = CASE WHEN (b.ag, b.av) <= (a.generation, s.set_version) AND (b.ag, b.av) > (s.applied_generation, s.applied_version)
				THEN b.av ELSE s.applied_version END
		FROM locked JOIN beat b ON b.id = locked.id CROSS JOIN authority a
		WHERE s.id = locked.id AND s.nonce = b.nonce AND s.ended = ''
		RETURNING s.id, s.set_version, s.ttl`
	renewSkipping = renewHead + ` SKIP LOCKED` + renewTail
	renewWaiting  = renewHead + renewTail
)

// Heartbeat implements store.Store: one statement and, in the same pipeline,
// a look at the rows that it did not renew.
func (s *Store) Heartbeat(ctx context.Context, beats []lease.Beat, wait bool) (store.Beats, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	query := renewSkipping
	if wait {
		query = renewWaiting
	}
	ids := column(beats, func(b lease.Beat) string { return b.Session })
	p := &pgx.Batch{}
	p.Queue(begin) // the pipeline is one transaction; the settings end with it
	p.Queue(query, ids,
		column(beats, func(b lease.Beat) string { return b.Nonce }),
		column(beats, func(b lease.Beat) int32 { return int32(b.Applied.Generation) }),
		column(beats, func(b lease.Beat) int64 { return int64(b.Applied.Version) }))
	p.Queue(`SELECT `+sessionColumns+` FROM session s WHERE s.id = ANY($1::text[])`, ids)
	p.Queue(standingQuery)
	results := s.pool.SendBatch(ctx, p)
	out, err := readBeats(results, beats)
	if closeErr := results.Close(); err == nil && closeErr != nil {
		err = commitError(closeErr)
	}
	return out, err
}

// renewed is one row of the update.
type renewed struct {
	id      string
	version uint64
	ttl     time.Duration
}

func readBeats(r pgx.BatchResults, beats []lease.Beat) (store.Beats, error) {
	out := store.Beats{Pulses: make([]store.Pulse, len(beats))}
	if _, err := r.Exec(); err != nil {
		return out, translate(err)
	}
	rows, err := r.Query()
	done, err := collect(rows, err, func(row pgx.CollectableRow) (renewed, error) {
		var v renewed
		err := row.Scan(&v.id, &v.version, &v.ttl)
		return v, err
	})
	if err != nil {
		return out, err
	}
	rows, err = r.Query()
	sessions, err := collect(rows, err, scanSession)
	if err != nil {
		return out, err
	}
	rows, err = r.Query()
	st, err := collect(rows, err, scanStanding)
	if err != nil {
		return out, err
	}
	if len(st) == 0 {
		return out, store.ErrSchema
	}
	out.Now, out.Identity = st[0].Now, st[0].Identity
	fillPulses(&out, beats, done, sessions, lease.Facts{Now: st[0].Now, Generation: st[0].Generation})
	return out, nil
}

// fillPulses answers each beat: renewed by the statement, refused by the rule,
// or skipped since the rule would have renewed it.
func fillPulses(out *store.Beats, beats []lease.Beat, done []renewed, sessions []lease.Session, f lease.Facts) {
	renewedBy := make(map[string]renewed, len(done))
	for _, v := range done {
		renewedBy[v.id] = v
	}
	byID := make(map[string]lease.Session, len(sessions))
	for _, s := range sessions {
		byID[s.ID] = s
	}
	for i, b := range beats {
		s, exists := byID[b.Session]
		v, ok := renewedBy[b.Session]
		switch {
		case ok && s.Nonce == b.Nonce:
			version := lease.SetVersion{Generation: f.Generation, Version: v.version}
			out.Pulses[i].Answer = lease.Answer{Code: lease.Renewed, Version: version, Remaining: v.ttl}
		case !exists:
			out.Pulses[i].Answer = lease.Answer{Code: lease.Rejected, Reason: lease.SessionUnknown, Detail: "session " + b.Session}
		default:
			_, answer := lease.Heartbeat(f, s, b)
			if answer.Code == lease.Renewed {
				out.Pulses[i].Skipped = true
				continue
			}
			out.Pulses[i].Answer = answer
		}
	}
}
