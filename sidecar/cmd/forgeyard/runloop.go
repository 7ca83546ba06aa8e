package main

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/sidecar/client"
	"github.com/forgeyard/concurrency/sidecar/ownership"
	"github.com/forgeyard/concurrency/sidecar/supervise"
)

// loop watches a running command: signals, the hold's state, and the two
// instants of the timeline of silence, by this process' own boottime.
type loop struct {
	run      *underScope
	group    *supervise.Group
	killAt   boottime.Instant
	deadline boottime.Instant
	termed   bool
	frozen   bool
}

// supervise returns when nothing of the command is left; the error is why the
// hold was lost, when it was.
func (r *underScope) supervise(g *supervise.Group, h *client.Hold, signals <-chan os.Signal, events <-chan client.Event) error {
	l := &loop{run: r, group: g}
	l.see(h.Current())
	timer := r.clock.NewTimer(l.next())
	defer timer.Stop()
	exited := g.Exited()
	for {
		select {
		case <-exited:
			l.endRest()
			return nil
		case s := <-signals:
			g.Forward(s.(syscall.Signal))
		case e := <-events:
			l.see(e)
		case <-timer.C():
			l.tick()
		case <-h.Context().Done():
			g.Kill()
			return context.Cause(h.Context())
		}
		timer.Reset(l.next())
	}
}

// see follows the hold's state.
func (l *loop) see(e client.Event) {
	if e.Deadline != 0 {
		l.killAt, l.deadline = e.KillAt, e.Deadline
	}
	if !l.run.flags.freeze {
		return
	}
	switch uncertain := e.State == ownership.Uncertain; {
	case uncertain && !l.frozen:
		l.frozen = true
		l.group.Signal(syscall.SIGSTOP)
	case !uncertain && l.frozen && e.State == ownership.Owned:
		l.frozen = false
		l.group.Signal(syscall.SIGCONT)
	}
}

// tick acts on the instants that have come: TERM before the hard deadline. At
// the deadline itself the hold's context ends.
func (l *loop) tick() {
	now := l.run.clock.Boot()
	if !l.termed && l.killAt != 0 && !now.Before(l.killAt) {
		l.termed = true
		if l.frozen { // a stopped process hears TERM only when it goes on
			l.group.Signal(syscall.SIGCONT)
		}
		l.group.Signal(syscall.SIGTERM)
	}
	if l.termed && now.Before(l.killAt) { // confirmed in the meantime; TERM cannot be taken back
		l.termed = false
	}
}

func (l *loop) next() time.Duration {
	now := l.run.clock.Boot()
	switch {
	case l.killAt != 0 && !l.termed:
		return max(l.killAt.Sub(now), 0)
	case l.deadline != 0:
		return max(l.deadline.Sub(now), 10*time.Millisecond)
	}
	return time.Hour
}

// endRest ends what the command left behind: TERM, then KILL.
func (l *loop) endRest() {
	l.group.Signal(syscall.SIGTERM)
	timer := clock.System().NewTimer(l.run.flags.killGrace)
	defer timer.Stop()
	select {
	case <-l.group.Done():
	case <-timer.C():
		l.group.Kill()
	}
}
