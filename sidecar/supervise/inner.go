package supervise

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// ErrOrphaned says that the outer supervisor was gone before the command
// started.
var ErrOrphaned = errors.New("supervise: the outer supervisor is gone")

// Inner runs a command for an outer supervisor, the process outer, which
// started this one with a death signal of TERM. When that one dies, even by
// kill -9, everything that the command started ends; when this one dies, the
// outer one becomes the parent of what is left, and ends it. It returns the
// command's code once the command itself has ended; what the command left is
// the outer one's.
func Inner(outer int, s Spec) (int, error) {
	// The command is in our group, and gets every signal itself.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)
	if os.Getppid() != outer {
		return 0, ErrOrphaned
	}
	s.SameGroup = true
	g, err := Start(s)
	if err != nil {
		return 0, err
	}
	for {
		select {
		case <-g.Exited():
			return g.Code(), nil
		case <-signals:
			if os.Getppid() != outer {
				g.Kill()
				return 128 + int(syscall.SIGKILL), nil
			}
		}
	}
}
