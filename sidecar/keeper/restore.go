package keeper

import (
	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/sidecar/cache"
	"github.com/forgeyard/concurrency/sidecar/ownership"
)

// restore takes over the holds of the process before this one. They are
// Uncertain until the authority confirms them. What was lost or being given
// back is given back; those whose process is gone are
// abandoned at once, those of a stream wait for their holder to attach again
// within uncertain_after (DESIGN 6.9). After a reboot nothing is left of them.
func (k *Keeper) restore() error {
	if err := k.restoreCovers(); err != nil {
		return err
	}
	former, ok, err := k.cfg.Cache.Session()
	if err != nil {
		return err
	}
	if !ok {
		return nil
	}
	k.former = former
	if former.BootID != k.cfg.BootID {
		return nil // deadlines of another boot mean nothing; the session runs out by itself
	}
	holds, err := k.cfg.Cache.Holds()
	if err != nil {
		return err
	}
	for _, c := range holds {
		if err := k.restoreHold(former, c); err != nil {
			return err
		}
	}
	return nil
}

func (k *Keeper) restoreHold(former cache.Session, c cache.Hold) error {
	key, err := ownership.ParseKey(c.Key)
	if err != nil {
		return err
	}
	now := k.cfg.Clock.Boot()
	t := ownership.Term{
		Key: key, Scope: c.Scope, Holder: c.Holder, Purpose: c.Purpose, Lease: c.Lease, Epoch: c.Epoch, Confirm: c.Confirm, Settling: c.Settling,
		Deadline: former.ConfirmedAt.Add(k.cfg.Budget.HardDeadline()), KillAt: former.ConfirmedAt.Add(k.cfg.Budget.HardDeadline() - k.cfg.Budget.KillGrace),
		Detail: "the sidecar was restarted",
	}
	h := newHold(ownership.Restore(t, k.timing, now), Request{
		Scope: c.Scope, Holder: c.Holder, Purpose: c.Purpose, CommandID: c.CommandID, UID: c.UID, Binding: c.Binding,
	})
	k.holds[key] = h
	if c.CommandID != "" {
		k.commands[c.CommandID] = h
	}
	k.dirty = true
	k.cfg.Log.Info("hold restored", zap.Stringer("scope", c.Scope), zap.String("node", k.cfg.Node), zap.Stringer("epoch", c.Epoch), zap.String("state", string(h.m.Term.State)))
	switch b := c.Binding; {
	case c.End == string(ownership.ReleasedByCaller):
		k.step(h, ownership.Event{Kind: ownership.EvRelease, Now: now})
	case c.End != "":
		k.step(h, ownership.Event{Kind: ownership.EvCallerGone, Now: now, Reason: ownership.Reason(c.End), Detail: c.EndDetail})
	case b.PID != 0 && !k.cfg.Alive(b.PID, b.StartTime):
		h.endBy = max(now, 1) // at the first turn of the loop
	case b.Stream:
		h.endBy = now.Add(k.cfg.Budget.UncertainAfter)
	case b.Detach > 0:
		h.endBy = now.Add(b.Detach)
	}
	return nil
}

// record is the hold as the cache keeps it.
func (k *Keeper) record(h *hold) cache.Hold {
	t := h.m.Term
	c := cache.Hold{
		Key: t.Key.Secret(), Scope: t.Scope, Holder: t.Holder, Purpose: h.req.Purpose, Lease: t.Lease, Epoch: t.Epoch, Confirm: t.Confirm, Settling: t.Settling,
		UID: h.req.UID, Binding: h.req.Binding, CommandID: h.req.CommandID,
	}
	if t.State == ownership.Releasing || t.State == ownership.Lost {
		c.End, c.EndDetail = string(t.Reason), t.Detail
	}
	return c
}
