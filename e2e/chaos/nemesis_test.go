package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/forgeyard/concurrency/authority/store/postgres/pgtest"
	"github.com/forgeyard/concurrency/e2e/relay"
)

// happened is one fault as it was.
type happened struct {
	fault
	Began, Ended time.Duration
	Err          error
}

// nemesis runs the plan. Faults on different parts may overlap; those on one
// part follow each other.
func (w *world) nemesis(ctx context.Context, faults []fault) []happened {
	var mu sync.Mutex
	var done []happened
	var running sync.WaitGroup
	for _, f := range faults {
		timer := time.NewTimer(f.At - w.history.At(time.Now()))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			running.Wait()
			return done
		}
		running.Go(func() {
			h := happened{fault: f}
			h.Began, h.Err = w.inflict(ctx, f)
			h.Ended = w.history.At(time.Now())
			mu.Lock()
			defer mu.Unlock()
			done = append(done, h)
		})
	}
	running.Wait()
	return done
}

// inflict makes one fault, waits for as long as it lasts, and heals it.
func (w *world) inflict(ctx context.Context, f fault) (began time.Duration, err error) {
	r, n := w.replicas[f.Target%len(w.replicas)], w.nodes[f.Target%len(w.nodes)]
	during := func(begin, heal func() error) error {
		began = w.history.At(time.Now())
		if err := begin(); err != nil {
			return err
		}
		pause(ctx, f.For)
		return heal()
	}
	ctx = context.WithoutCancel(ctx)
	path := n.paths[(f.Target/len(w.nodes))%len(n.paths)]
	switch f.Kind {
	case "kill-authority":
		return began, locked(r, func() error { return during(r.Kill, func() error { return again(ctx, r.Restart) }) })
	case "stop-authority":
		return began, locked(r, func() error { return during(r.Pause, r.Resume) })
	case "kill-sidecar":
		return began, locked(n, func() error { return during(n.Kill, func() error { return again(ctx, n.Restart) }) })
	case "stop-sidecar":
		return began, locked(n, func() error { return during(n.Pause, n.Resume) })
	case "damage-file":
		return began, locked(n, func() error {
			return during(func() error { return n.damage(f.Target) }, func() error { return again(ctx, n.Restart) })
		})
	case "disk-full":
		return began, locked(n, func() error { return during(n.fill, func() error { return n.free(ctx) }) })
	case "slow-disk":
		return began, locked(n, func() error {
			return during(func() error { n.slow.delay.Store(int64(f.Size)); return nil }, func() error { n.slow.delay.Store(0); return nil })
		})
	case "stutter":
		return began, locked(n, func() error { return during(n.stutter(f.For), func() error { return nil }) })
	case "drop-to", "drop-from", "drop-both":
		return began, locked(n, func() error { return during(func() error { return n.drop(f.Kind) }, n.undrop) })
	case "delay":
		return began, locked(n, func() error {
			return during(func() error { n.each(func(p *relay.Relay) { p.Delay(f.Size) }); return nil },
				func() error { n.each(func(p *relay.Relay) { p.Delay(0) }); return nil })
		})
	case "lose-node-answer":
		return w.history.At(time.Now()), lose(path)
	case "lose-db-answer":
		return w.history.At(time.Now()), lose(r.db)
	}
	return began, locked(w.db, func() error { return w.onDatabase(ctx, f, during) })
}

func (w *world) onDatabase(ctx context.Context, f fault, during func(begin, heal func() error) error) error {
	d := w.db
	if d.standby == nil {
		return errors.New("no standby: an earlier fault could not be healed")
	}
	switch f.Kind {
	case "clock-step":
		return during(func() error { return d.step(f.Size) }, func() error { return d.step(0) })
	case "restart-postgres":
		return during(func() error { d.primary.Kill(); return nil }, func() error { return d.primary.Start(ctx) })
	case "stop-postgres":
		return during(func() error { d.primary.Signal(syscall.SIGSTOP); return nil }, func() error { d.primary.Signal(syscall.SIGCONT); return nil })
	case "promote":
		// The standby stops to follow; what is granted meanwhile is lost.
		return during(func() error { d.standby.Kill(); return nil }, func() error { return w.promote(ctx) })
	case "restore":
		return during(func() error { return d.takeDump(ctx) }, func() error { return w.restore(ctx) })
	}
	return fmt.Errorf("no such fault: %s", f.Kind)
}

// locked keeps other faults away from a part.
func locked(l sync.Locker, f func() error) error {
	l.Lock()
	defer l.Unlock()
	return f()
}

// again starts a process as a service manager does: it may need what another
// fault has taken away just now.
func again(ctx context.Context, start func(context.Context) error) error {
	var err error
	for range 60 {
		if err = start(ctx); err == nil {
			return nil
		}
		pause(ctx, 500*time.Millisecond)
	}
	return err
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func lose(r *relay.Relay) error {
	r.LoseAnswer()
	return nil
}

func (n *node) each(f func(*relay.Relay)) {
	for _, p := range n.paths {
		f(p)
	}
}

// drop drops packets between the node and its ways to the authorities.
func (n *node) drop(kind string) error {
	table := "cut_" + n.name[len(n.name)-1:]
	rules := []string{"add table ip " + table, "add chain ip " + table + " in { type filter hook input priority 0 ; }"}
	for _, p := range n.paths {
		_, port, _ := cutPort(p.Addr)
		if kind != "drop-from" {
			rules = append(rules, "add rule ip "+table+" in tcp dport "+port+" drop")
		}
		if kind != "drop-to" {
			rules = append(rules, "add rule ip "+table+" in tcp sport "+port+" drop")
		}
	}
	for _, rule := range rules {
		if out, err := exec.Command("nft", rule).CombinedOutput(); err != nil {
			return fmt.Errorf("nft %s: %w: %s", rule, err, out)
		}
	}
	return nil
}

func (n *node) undrop() error {
	out, err := exec.Command("nft", "delete table ip cut_"+n.name[len(n.name)-1:]).CombinedOutput()
	if err != nil {
		return fmt.Errorf("nft: %w: %s", err, out)
	}
	return nil
}

func cutPort(addr string) (host, port string, ok bool) {
	for i := len(addr) - 1; i >= 0; i-- {
		if addr[i] == ':' {
			return addr[:i], addr[i+1:], true
		}
	}
	return addr, "", false
}

// damage kills the sidecar and writes over a page of its cache or journal, or
// cuts it.
func (n *node) damage(how int) error {
	err := n.Kill()
	file := filepath.Join(n.back, []string{"cache.db", "journal.db"}[how/2%2])
	info, statErr := os.Stat(file)
	if statErr != nil {
		return errors.Join(err, statErr)
	}
	if how%2 == 0 {
		return errors.Join(err, os.Truncate(file, info.Size()/2))
	}
	f, openErr := os.OpenFile(file, os.O_WRONLY, 0)
	if openErr != nil {
		return errors.Join(err, openErr)
	}
	defer f.Close()
	garbage := make([]byte, 4096)
	for i := range garbage {
		garbage[i] = byte(how*31 + i)
	}
	_, writeErr := f.WriteAt(garbage, 4096*int64(how))
	return errors.Join(err, writeErr)
}

// fill leaves no byte on the node's disk.
func (n *node) fill() error {
	f, err := os.Create(filepath.Join(n.back, "filler"))
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// free makes room again; a sidecar whose journal failed wants a restart.
func (n *node) free(ctx context.Context) error {
	return errors.Join(os.Remove(filepath.Join(n.back, "filler")), n.Kill(), again(ctx, n.Restart))
}

// stutter makes the sidecar run in bursts, as a process does that waits for
// its disk again and again.
func (n *node) stutter(d time.Duration) func() error {
	return func() error {
		for end := time.Now().Add(d / 2); time.Now().Before(end); {
			if err := n.Pause(); err != nil {
				return err
			}
			pause(context.Background(), 120*time.Millisecond)
			if err := n.Resume(); err != nil {
				return err
			}
			pause(context.Background(), 40*time.Millisecond)
		}
		return nil
	}
}

// promote kills the primary and makes the standby, which lags behind, the new
// one; a new standby follows it.
func (w *world) promote(ctx context.Context) error {
	d := w.db
	d.primary.Kill()
	if err := d.standby.Start(ctx); err != nil {
		return fmt.Errorf("start standby: %w", err)
	}
	if err := d.standby.Promote(ctx); err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	return w.succeed(ctx, d.standby)
}

// succeed makes a server the primary for everybody.
func (w *world) succeed(ctx context.Context, next *pgtest.Server) error {
	d := w.db
	d.primary.Stop()
	d.primary = next
	if d.pooler != nil {
		if err := d.pooler.lead(next.Port); err != nil {
			return err
		}
	}
	for _, r := range w.replicas {
		r.db.Target(d.address())
		r.db.Cut()
	}
	var err error
	d.standby, err = pgtest.New(ctx, pgtest.Options{Env: d.env, Basebackup: next})
	return err
}

// takeDump remembers what the database holds now.
func (d *database) takeDump(ctx context.Context) error {
	var err error
	d.dump, err = d.primary.Dump(ctx, d.name)
	return err
}

// restore loses the database and its standby, and puts the dump into a new one.
func (w *world) restore(ctx context.Context) error {
	d := w.db
	d.primary.Kill()
	d.standby.Stop()
	d.standby = nil
	next, err := pgtest.New(ctx, pgtest.Options{Env: d.env})
	if err != nil {
		return err
	}
	if err := next.Restore(ctx, d.name, d.dump); err != nil {
		return err
	}
	return w.succeed(ctx, next)
}

// postgresUser is whom servers run as when we are root.
func postgresUser() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
