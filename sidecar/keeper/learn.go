package keeper

import (
	"go.uber.org/zap"
)

// learn asks what somebody saw of effects that are unknown here, under leases
// that the authority does not wait to hear about any more: a person, or a
// controller on another node, has resolved them. Their idempotency keys are
// answered from this journal.
func (k *Keeper) learn() {
	for id, c := range k.covers {
		if _, owed := k.owed[id]; owed || c.busy || !k.silent(id) {
			continue
		}
		if _, unknown := k.cfg.Effects.Counts(id); unknown > 0 {
			c.busy = true
			k.startLearn(c)
		}
	}
}

func (k *Keeper) startLearn(c *cover) {
	s := k.session
	go func() {
		ctx, cancel := k.withTimeout(s.ctx, answerTimeout)
		defer cancel()
		e, err := k.link.Evidence(ctx, c.Scope.String())
		k.post(func() {
			c.busy = false
			if err != nil { // the next look asks again
				k.cfg.Log.Warn("learn what became of effects", zap.Stringer("scope", c.Scope), zap.String("node", k.cfg.Node), zap.Error(err))
				return
			}
			k.learned(c, e)
		})
	}()
}

func (k *Keeper) learned(c *cover, e Evidence) {
	for _, one := range e.Effects {
		if o := one.Observation; o != nil && one.Effect.Lease == c.Lease {
			k.cfg.Effects.Reconcile(one.Effect.ID, o.Outcome, o.Seen)
		}
	}
	if open, unknown := k.cfg.Effects.Counts(c.Lease); open+unknown == 0 {
		k.settled(c.Lease)
	}
}
