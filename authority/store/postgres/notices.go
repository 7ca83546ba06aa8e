package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgeyard/concurrency/authority/store"
)

// channel is what replicas listen on; it is the database's own.
const channel = "forgeyard_moved"

// probeEvery is how long the listening connection may be idle before it is
// asked whether it still works; probeTimeout is for the answer.
const (
	probeEvery   = 15 * time.Second
	probeTimeout = 5 * time.Second
)

// Notices carries hints between the replicas of one database.
type Notices struct {
	store *Store
	url   string
}

// Notices listens on a connection of its own to listenURL, which must lead to
// the server directly: a pooler in transaction mode takes a connection away
// after each transaction. Empty: the store's URL.
func (s *Store) Notices(listenURL string) *Notices {
	if listenURL == "" {
		listenURL = s.cfg.URL
	}
	return &Notices{store: s, url: listenURL}
}

// Notify sends texts, each below 8000 bytes, in a transaction of its own that
// waits for no fsync: they are hints.
func (n *Notices) Notify(ctx context.Context, texts []string) error {
	p := &pgx.Batch{}
	p.Queue(`SELECT set_config('synchronous_commit', 'off', true)`) // the pipeline is one transaction
	p.Queue(`SELECT pg_notify($1, t) FROM unnest($2::text[]) AS t`, channel, texts)
	return translate(n.store.pool.SendBatch(ctx, p).Close())
}

// Listen calls ready when it listens and heard for each text, until ctx is
// done or the connection is lost, which is store.ErrUnavailable.
func (n *Notices) Listen(ctx context.Context, ready func(), heard func(text string)) error {
	pc, err := poolConfig(Config{URL: n.url})
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, pc.ConnConfig)
	if err != nil {
		return fmt.Errorf("listen: %w: %w", store.ErrUnavailable, err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		conn.Close(ctx)
	}()
	if _, err := conn.Exec(ctx, `LISTEN `+channel); err != nil {
		return fmt.Errorf("listen: %w", translate(err))
	}
	ready()
	for {
		text, err := next(ctx, conn)
		if err != nil {
			return fmt.Errorf("listen: %w: %w", store.ErrUnavailable, err)
		}
		if text != "" {
			heard(text)
		}
	}
}

// next waits for a text, or, after a while of silence, for a proof that the
// connection still works.
func next(ctx context.Context, conn *pgx.Conn) (string, error) {
	idle, cancel := context.WithTimeout(ctx, probeEvery)
	defer cancel()
	got, err := conn.WaitForNotification(idle)
	switch {
	case err == nil:
		return got.Payload, nil
	case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) || conn.IsClosed():
		return "", err
	}
	probe, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return "", conn.Ping(probe)
}
