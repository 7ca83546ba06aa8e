package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/sidecar/client"
)

const runHelp = `Run a command while this machine holds a scope.

The command starts once the scope is owned, in a process group of its own, and
everything that it started has ended before the scope is given back. Its
environment has:

  FORGEYARD_SCOPE, FORGEYARD_LEASE, FORGEYARD_EPOCH   what it runs under
  FORGEYARD_URL_<PROVIDER>     base URL of each provider: what is sent there is fenced
  FORGEYARD_HOLD_KEY           secret that the base URLs contain
  FORGEYARD_DEADLINE_IN_MS     hard deadline at the start, if nothing is confirmed any more

When ownership cannot be confirmed, nothing new leaves through the base URLs.
TERM is sent kill_grace before the hard deadline, KILL at it, by this process'
own clock. What the command leaves behind when it ends gets TERM, then KILL
after --kill-grace.

Exit codes:
  0..112   the command's own
  113      the scope did not become free within --wait
  114      superseded: another holder has the scope
  115      ownership was lost while the command ran; it was ended
  116      the sidecar or the authority did not answer
  117      refused: the request cannot be granted as it is
  127      the command was not found or could not be started
  118      the scope is blocked for reconciliation, or quarantined
  128+n    the command was ended by signal n
  130      interrupted while waiting; the command was never started
  2        malformed arguments

With 113 to 118 and 130 the last line on standard error starts with
"forgeyard:"; --status-file gets the reason as JSON in every case.`

// runFlags is what a person can say about a run.
type runFlags struct {
	scope, holder, statusFile string
	wait, killGrace           time.Duration
	freeze                    bool
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use: "run --scope SCOPE [flags] -- COMMAND [ARG ...]", Short: "Run a command while holding a scope", Long: runHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.newRun(f, args)
			if err != nil {
				return &exitError{code: exitUsage, text: err.Error()}
			}
			return r.do(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&f.scope, "scope", "", "what to hold, as tenant/kind:name (needed)")
	cmd.Flags().StringVar(&f.holder, "holder", "", "who holds it, as kind:id (default run:<command>-<pid>)")
	cmd.Flags().DurationVar(&f.wait, "wait", 0, "how long to wait for a busy scope")
	cmd.Flags().DurationVar(&f.killGrace, "kill-grace", 3*time.Second, "between TERM and KILL for what the command leaves behind")
	cmd.Flags().BoolVar(&f.freeze, "freeze-on-uncertain", false, "stop the command's processes while ownership cannot be confirmed")
	cmd.Flags().StringVar(&f.statusFile, "status-file", "", "file for the outcome as JSON")
	return cmd
}

// underScope is one checked request.
type underScope struct {
	app    *app
	flags  runFlags
	scope  scope.Scope
	holder lease.Holder
	args   []string
	clock  clock.Clock
	status runStatus
}

func (a *app) newRun(f runFlags, args []string) (*underScope, error) {
	if len(args) == 0 {
		return nil, errors.New("no command: give it after --")
	}
	s, err := scope.Parse(f.scope)
	if err != nil {
		return nil, fmt.Errorf("--scope: %w", err)
	}
	if f.wait < 0 || f.killGrace < 0 {
		return nil, fmt.Errorf("--wait %s, --kill-grace %s: must not be negative", f.wait, f.killGrace)
	}
	r := &underScope{app: a, flags: f, scope: s, args: args, clock: clock.System()}
	r.holder = lease.Holder{Kind: lease.HolderRun, ID: fmt.Sprintf("%s-%d", baseName(args[0]), os.Getpid())}
	if f.holder != "" {
		kind, id, ok := strings.Cut(f.holder, ":")
		if !ok || id == "" {
			return nil, fmt.Errorf("--holder %q: must read kind:id, for example deployment:web-42", f.holder)
		}
		r.holder = lease.Holder{Kind: lease.HolderKind(kind), ID: id}
	}
	return r, nil
}

func baseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// do takes the scope, runs the command, and gives the scope back.
func (r *underScope) do(ctx context.Context) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)
	signal.Ignore(syscall.SIGTTOU) // for taking the terminal back
	c, err := client.Dial(r.app.socket)
	if err != nil {
		return r.finish(exitUnreachable, "unreachable", err.Error())
	}
	defer c.Close()
	events := make(chan client.Event, 16)
	hold, err := r.acquire(ctx, c, signals, events)
	if err != nil {
		return r.refused(err)
	}
	r.status.Lease, r.status.Epoch = hold.Lease(), hold.Token().String()
	if stopEarly(signals) {
		r.release(ctx, hold)
		return r.refused(errInterrupted)
	}
	group, err := r.start(hold)
	if err != nil {
		r.release(ctx, hold)
		return r.finish(exitNotStarted, "not-started", err.Error())
	}
	lost := r.supervise(group, hold, signals, events)
	if lost != nil {
		return r.lost(lost)
	}
	r.release(ctx, hold)
	return r.finish(group.Code(), "ended", "")
}

// stopEarly reports whether a signal came after the grant: nothing is started
// then either.
func stopEarly(signals <-chan os.Signal) bool {
	select {
	case <-signals:
		return true
	default:
		return false
	}
}

// errInterrupted says that a signal came while the scope was waited for.
var errInterrupted = errors.New("interrupted while waiting for the scope; the command was not started")

func (r *underScope) acquire(ctx context.Context, c *client.Client, signals <-chan os.Signal, events chan client.Event) (*client.Hold, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-signals:
			cancel(errInterrupted)
		case <-stop:
		}
	}()
	waiting := false
	hold, err := c.Acquire(ctx, r.scope, client.Wait(r.flags.wait), client.As(r.holder.Kind, r.holder.ID), client.OnEvent(func(e client.Event) {
		if e.Successor != nil && !waiting {
			waiting = true
			fmt.Fprintf(r.app.Err, "forgeyard: waiting for %s: held by %s %s on node %s, epoch %d\n",
				r.scope, e.Successor.Holder.Kind, e.Successor.Holder.ID, e.Successor.Node, e.Successor.Epoch)
		}
		select {
		case events <- e:
		default: // the loop reads the latest state from the hold as well
		}
	}))
	close(stop)
	<-stopped // a signal that it took is seen below
	if cause := context.Cause(ctx); errors.Is(cause, errInterrupted) {
		if err == nil {
			_, _ = hold.Release(context.WithoutCancel(ctx)) // the signal won
		}
		return nil, errInterrupted
	}
	return hold, err
}

// environ is the command's environment.
func (r *underScope) environ(h *client.Hold) []string {
	env := slices.Clone(r.app.Environ)
	left := h.Current().Deadline.Sub(r.clock.Boot())
	env = append(env, "FORGEYARD_SCOPE="+r.scope.String(), "FORGEYARD_LEASE="+h.Lease(), "FORGEYARD_EPOCH="+h.Token().String(),
		"FORGEYARD_HOLD_KEY="+h.Key(), fmt.Sprintf("FORGEYARD_DEADLINE_IN_MS=%d", left.Milliseconds()))
	for name, url := range h.BaseURLs() {
		env = append(env, "FORGEYARD_URL_"+variable(name)+"="+url)
	}
	return env
}

func variable(provider string) string {
	return strings.Map(func(c rune) rune {
		if (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') {
			return c
		}
		return '_'
	}, strings.ToUpper(provider))
}

// release gives the scope back and says what is unknown.
func (r *underScope) release(ctx context.Context, h *client.Hold) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	unknown, err := h.Release(ctx)
	r.status.Unknown = unknown
	if err != nil {
		fmt.Fprintf(r.app.Err, "forgeyard: %v\n", err)
	}
	if unknown > 0 {
		fmt.Fprintf(r.app.Err, "forgeyard: %d effects of %s have an unknown outcome; see `forgeyard concurrency effects`\n", unknown, r.scope)
	}
}
