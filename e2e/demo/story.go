package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/forgeyard/concurrency/e2e/cluster"
	"github.com/forgeyard/concurrency/e2e/provider"
)

// story tells what happens as it happens.
type story struct {
	*stack
	out            io.Writer
	began          time.Time
	old, newer     *deployer
	late, next     *deployer // of the second act
	speak          func()    // lets the provider answer again
	before, during uint64    // epochs of the two
}

func demo(ctx context.Context, bin string, out io.Writer) error {
	return temporary(func(dir string) (err error) {
		s := &story{stack: &stack{opts: cluster.Options{Bin: bin, Dir: dir}}, out: out, began: time.Now()}
		defer func() { err = errors.Join(err, s.close()) }()
		steps := []func(context.Context) error{
			s.set, s.take, s.pause, s.takeOver, s.wakeUp, s.stale, s.judge, s.outage, s.recover,
			s.takeBilling, s.pauseInFlight, s.blocked, s.look, s.resolve, s.goOn, s.wakeUpLate,
		}
		for _, step := range steps {
			if err := errors.Join(ctx.Err(), step(ctx)); err != nil {
				return err
			}
		}
		s.say("\nThe stale deployer could not act, the new one never lost its place, and where a stale one may")
		s.say("have left something half done, nobody went on before somebody had looked. That is the whole point.")
		return nil
	})
}

func (s *story) say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// tell prefixes a line with the seconds since the beginning.
func (s *story) tell(format string, args ...any) {
	s.say("%6.1f s  %s", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

func (s *story) set(ctx context.Context) error {
	s.say("Two deployers, one environment: %s.", prod)
	s.say("Each has a sidecar on its machine; the authority decides who may deploy.\n")
	addr, err := s.serve()
	if err != nil {
		return err
	}
	if err := s.start(ctx, addr); err != nil {
		return err
	}
	s.tell("authority, sidecar node-a and sidecar node-b are running")
	return nil
}

func (s *story) take(context.Context) error {
	var err error
	if s.old, err = s.deployer("deployer-A", prod, s.a); err != nil {
		return err
	}
	r, err := s.old.report()
	if err != nil {
		return err
	}
	s.before = r.Epoch
	s.tell("deployer-A owns %s with epoch %d; it prepares plan 1", prod, r.Epoch)
	return nil
}

// pause stops deployer and sidecar together, as a machine that is suspended.
func (s *story) pause(context.Context) error {
	if err := errors.Join(s.old.Pause(), s.a.Pause()); err != nil {
		return err
	}
	s.tell("deployer-A's machine freezes, before the write (SIGSTOP to both of its processes)")
	// What it was about to do: the first things it does when it wakes up.
	return errors.Join(s.old.order("PUT /plans/prod plan 1"), s.old.order("DELETE /plans/prod"))
}

func (s *story) takeOver(context.Context) error {
	var err error
	if s.newer, err = s.deployer("deployer-B", prod, s.b); err != nil {
		return err
	}
	s.tell("deployer-B asks for the same scope and waits: nobody has proved that A is gone")
	r, err := s.newer.report()
	if err != nil {
		return err
	}
	s.during = r.Epoch
	if s.during <= s.before {
		return fmt.Errorf("epoch %d of the new owner is not above %d", s.during, s.before)
	}
	s.tell("A's session has expired: deployer-B owns the scope with the higher epoch %d", r.Epoch)
	if r, err = s.newer.do("PUT /plans/prod plan 2"); err != nil {
		return err
	}
	if r.Status != http.StatusNoContent {
		return fmt.Errorf("write plan 2: %d %s", r.Status, r.Detail)
	}
	s.tell("deployer-B writes plan 2: %d", r.Status)
	return nil
}

func (s *story) wakeUp(context.Context) error {
	s.tell("deployer-A's machine continues. A does not know that time has passed")
	return errors.Join(s.a.Resume(), s.old.Resume())
}

// stale reads what became of A's two requests.
func (s *story) stale(context.Context) error {
	for _, what := range []string{"write plan 1", "delete the \"old\" plan"} {
		r, err := s.old.report()
		if err != nil {
			return err
		}
		if r.Status != http.StatusPreconditionFailed || r.Code == "" {
			return fmt.Errorf("deployer-A was not refused: %s: %d %s %s", what, r.Status, r.Code, r.Detail)
		}
		s.tell("deployer-A tries to %s: REFUSED with %d %s", what, r.Status, r.Code)
		s.say("          %s", r.Detail)
	}
	return nil
}

func (s *story) judge(context.Context) error {
	log := s.provider.Log()
	if plan := s.provider.Plan("/plans/prod"); plan != "plan 2" {
		return fmt.Errorf("the provider holds %q, not plan 2", plan)
	}
	if err := provider.Judge(log, true); err != nil {
		return err
	}
	s.tell("the provider holds plan 2; it saw %d mutation, none with a lower token than one before", len(log))
	return nil
}

func (s *story) outage(ctx context.Context) error {
	s.say("")
	if err := s.authority.Stop(); err != nil {
		return err
	}
	s.tell("the authority stops. deployer-B keeps its scope for as long as it is certain")
	if err := s.await(ctx, "ownership-uncertain"); err != nil {
		return err
	}
	s.tell("node-b cannot confirm any more: OwnershipUncertain. Nothing is killed, nothing new is sent")
	r, err := s.newer.do("PUT /plans/prod plan 3")
	if err != nil {
		return err
	}
	if r.Status != http.StatusLocked {
		return fmt.Errorf("write while uncertain: %d %s %s, not 423", r.Status, r.Code, r.Detail)
	}
	s.tell("deployer-B tries to write plan 3: BLOCKED with %d %s", r.Status, r.Code)
	s.say("          %s", r.Detail)
	return nil
}

func (s *story) recover(ctx context.Context) error {
	if err := s.authority.Restart(ctx); err != nil {
		return err
	}
	s.tell("the authority is back, in time")
	if err := s.await(ctx, "owned"); err != nil {
		return err
	}
	s.tell("deployer-B owns the scope again, with the same epoch %d", s.during)
	r, err := s.newer.do("PUT /plans/prod plan 3")
	if err != nil {
		return err
	}
	if plan := s.provider.Plan("/plans/prod"); r.Status != http.StatusNoContent || plan != "plan 3" {
		return fmt.Errorf("write plan 3: %d %s; the provider holds %q", r.Status, r.Detail, plan)
	}
	s.tell("deployer-B writes plan 3: %d", r.Status)
	return provider.Judge(s.provider.Log(), true)
}

// await looks at node-b's hold until it is in a state, with B's epoch.
func (s *story) await(ctx context.Context, state string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		status, err := s.b.Local().Status(ctx)
		if err != nil {
			return err
		}
		for _, h := range status.GetHolds() {
			if h.GetState() == state && h.GetEpoch() == s.during {
				return nil
			}
			if h.GetFinal() {
				return fmt.Errorf("node-b's hold is %s: %s", h.GetState(), h.GetDetail())
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("node-b's hold does not become %s: %w", state, ctx.Err())
		}
	}
}
