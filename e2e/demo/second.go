package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The second act: the same accident on a scope that reconciles, and this time
// in the middle of a call.

func (s *story) takeBilling(context.Context) error {
	s.say("\nThe same accident once more, on %s. Its policy is reconcile:", billing)
	s.say("the end of a lease is no proof that its effects stopped, so somebody must look.\n")
	var err error
	if s.late, err = s.deployer("deployer-C", billing, s.a); err != nil {
		return err
	}
	r, err := s.late.report()
	if err != nil {
		return err
	}
	s.before = r.Epoch
	s.tell("deployer-C owns %s with epoch %d", billing, r.Epoch)
	return nil
}

// pauseInFlight stops C's machine while the provider works on its call.
func (s *story) pauseInFlight(ctx context.Context) error {
	s.speak = s.provider.Mute("/plans/billing")
	if err := s.late.order("PUT /plans/billing plan 7"); err != nil {
		return err
	}
	if err := s.until(ctx, "the provider has the call", func() (bool, error) { return s.provider.Plan("/plans/billing") == "plan 7", nil }); err != nil {
		return err
	}
	s.tell("deployer-C writes plan 7; the provider works on it and does not answer yet")
	var found evidence
	err := s.until(ctx, "node-a has reported the call", func() (bool, error) {
		out, err := s.forgeyard(ctx, "concurrency", "evidence", billing, "-o", "json")
		return err == nil && json.Unmarshal(out, &found) == nil && len(found.Evidence.Effects) > 0, nil
	})
	if err != nil {
		return err
	}
	s.tell("node-a's heartbeat has told the authority of the open call")
	if err := errors.Join(s.late.Pause(), s.a.Pause()); err != nil {
		return err
	}
	s.tell("deployer-C's machine freezes, in the middle of the call")
	return nil
}

// evidence is the part of the command's answer that the story needs.
type evidence struct {
	Evidence struct {
		Effects []struct {
			Effect struct{ ID, State string }
		}
	}
}

// blocked: D is refused, since nobody knows what C left behind.
func (s *story) blocked(ctx context.Context) error {
	var state struct{ State string }
	err := s.until(ctx, "the scope is blocked", func() (bool, error) {
		// Asking for it ends what is over.
		out, err := s.command(ctx, "run", "--socket", s.b.Socket, "--scope", billing, "--wait", "1s", "--", "true").CombinedOutput()
		if err == nil {
			return false, fmt.Errorf("deployer-D was let through: %s", out)
		}
		if out, err = s.forgeyard(ctx, "concurrency", "explain", billing, "-o", "json"); err != nil {
			return false, err
		}
		return json.Unmarshal(out, &state) == nil && state.State == "blocked-for-reconciliation", nil
	})
	if err != nil {
		return err
	}
	out, err := s.command(ctx, "run", "--socket", s.b.Socket, "--scope", billing, "--wait", "1s", "--", "true").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 118 {
		return fmt.Errorf("forgeyard run on a blocked scope: %w: %s", err, out)
	}
	s.tell("C's session has expired. deployer-D asks for the scope: BLOCKED, exit code 118")
	s.indent(string(out))
	return nil
}

// look: a person claims the scope and sees the evidence.
func (s *story) look(ctx context.Context) error {
	out, err := s.forgeyard(ctx, "concurrency", "reconcile", billing, "--reason", "C froze in the middle")
	if err != nil {
		return err
	}
	s.tell("a person on call claims it: forgeyard concurrency reconcile %s", billing)
	s.indent(string(out))
	return nil
}

// resolve: the person looks at the provider and says what is there.
func (s *story) resolve(ctx context.Context) error {
	plan := s.provider.Plan("/plans/billing")
	s.tell("the person looks at the provider: it holds %q", plan)
	out, err := s.forgeyard(ctx, "concurrency", "evidence", billing, "-o", "json")
	if err != nil {
		return err
	}
	var found evidence
	if err := json.Unmarshal(out, &found); err != nil {
		return fmt.Errorf("read evidence: %w", err)
	}
	args := []string{"concurrency", "resolve", billing, "--reopen", "the provider holds " + plan + " and nothing else"}
	for _, e := range found.Evidence.Effects {
		args = append(args, "--effect", e.Effect.ID, "--outcome", "succeeded", "--seen", "the provider holds "+plan)
	}
	if out, err = s.forgeyard(ctx, args...); err != nil {
		return err
	}
	s.tell("and says so: forgeyard concurrency resolve %s --effect .. --outcome succeeded --seen .. --reopen ..", billing)
	s.indent(string(out))
	return nil
}

func (s *story) goOn(context.Context) error {
	var err error
	if s.next, err = s.deployer("deployer-D", billing, s.b); err != nil {
		return err
	}
	r, err := s.next.report()
	if err != nil {
		return err
	}
	if r.Epoch <= s.before {
		return fmt.Errorf("epoch %d of the new owner is not above %d", r.Epoch, s.before)
	}
	s.tell("the scope is open again: deployer-D owns it with epoch %d", r.Epoch)
	if r, err = s.next.do("PUT /plans/next plan 8"); err != nil {
		return err
	}
	if r.Status != http.StatusNoContent {
		return fmt.Errorf("write plan 8: %d %s", r.Status, r.Detail)
	}
	s.tell("deployer-D writes plan 8: %d", r.Status)
	return nil
}

// wakeUpLate: C's call was cut, and it can do nothing more.
func (s *story) wakeUpLate(context.Context) error {
	if err := errors.Join(s.late.order("PUT /plans/billing plan 7 again"), s.a.Resume(), s.late.Resume()); err != nil {
		return err
	}
	for _, what := range []string{"learns what became of plan 7", "tries to write it again"} {
		r, err := s.late.report()
		if err != nil {
			return err
		}
		if r.Code == "" {
			return fmt.Errorf("deployer-C %s: %d %s", what, r.Status, r.Detail)
		}
		s.tell("deployer-C's machine continues; C %s: %d %s", what, r.Status, r.Code)
	}
	s.speak()
	return nil
}

// until asks again and again, for at most twenty seconds.
func (s *story) until(ctx context.Context, what string, is func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := is(); err != nil || ok {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("not within 20 s: %s", what)
		}
	}
}

// command is the forgeyard command with the operator's configuration.
func (s *story) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.opts.Bin, "forgeyard"), args...)
	cmd.Env = append(cmd.Environ(), "FORGEYARD_CONFIG="+s.authority.OperatorConfig)
	return cmd
}

func (s *story) forgeyard(ctx context.Context, args ...string) ([]byte, error) {
	out, err := s.command(ctx, args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("forgeyard %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	return out, err
}

func (s *story) indent(text string) {
	for line := range strings.Lines(strings.TrimSpace(text)) {
		s.say("          | %s", strings.TrimRight(line, "\n"))
	}
}
