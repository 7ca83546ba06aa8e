package proxy

import (
	"context"
	"time"
)

// watchDeadline cuts the connection at the hard deadline by the proxy's own
// reading of boottime, until ctx ends: the kernel goes on to send what it has
// even when the keeper, which cuts otherwise, is stuck (I5, FC-21).
func (s *send) watchDeadline(ctx context.Context) {
	timer := s.p.cfg.Clock.NewTimer(s.untilDeadline())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
		}
		if s.permit.CheckRunning() != nil {
			s.link.conn.cut()
			return
		}
		timer.Reset(s.untilDeadline()) // it was renewed meanwhile
	}
}

// untilDeadline is how long the hold lasts without another confirmation. It
// is never 0: what has no deadline must not keep the loop busy.
func (s *send) untilDeadline() time.Duration {
	return max(s.permit.Term().Deadline.Sub(s.p.cfg.Clock.Boot()), time.Millisecond)
}
