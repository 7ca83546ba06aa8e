package keeper

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/shared/lease"
)

// Close ends the session, when nothing is held under it: the node's next
// process, with another data directory or on another machine too, registers at
// once instead of waiting for a ttl. With holds it does nothing, and the
// session is resumed by the next process. The doors must be closed before;
// afterwards nothing registers or is confirmed any more.
func (k *Keeper) Close(ctx context.Context) error {
	var s session
	var c Command
	err := k.do(ctx, func() {
		if k.session.id == "" || !k.session.connected || !k.idle() {
			return
		}
		k.closing = true
		k.session.beat.end() // an answer would find the session ended
		k.session.fetch.end()
		s, c = k.session, k.command(k.session, Command{})
	})
	if err != nil || s.id == "" {
		return err
	}
	a, err := k.link.Do(ctx, c)
	if err != nil {
		return fmt.Errorf("close session: %w", err)
	}
	if a.Code != lease.Done && a.Code != lease.AlreadyEnded {
		return fmt.Errorf("close session: %s (%s): %s", a.Code, a.Reason, a.Detail)
	}
	k.cfg.Log.Info("session closed", zap.String("node", k.cfg.Node), zap.String("session", s.id))
	return k.do(ctx, func() { k.persist(k.cfg.Cache.Reset, nil) })
}

// idle reports whether the authority counts nothing for this node any more:
// what is still known has been given back, or was never granted.
func (k *Keeper) idle() bool {
	for _, h := range k.holds {
		if h.forgetAt == 0 {
			return false
		}
	}
	return len(k.releasing) == 0
}
