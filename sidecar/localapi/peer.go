package localapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Peer is who called, as the kernel says.
type Peer struct {
	PID       int
	UID       uint32
	StartTime uint64 // of the process, read when it connected; 0: it was gone
}

type peerKey struct{}

// connContext notes the peer of a fresh connection.
func connContext(ctx context.Context, c net.Conn) context.Context {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return ctx
	}
	var p Peer
	ctl := raw.Control(func(fd uintptr) { p, err = readPeer(int(fd)) })
	if ctl != nil || err != nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, p)
}

// soPeerPidfd is SO_PEERPIDFD (Linux 6.5), which the kernel answers with a
// descriptor of exactly the process that connected.
const soPeerPidfd = 77

// readPeer asks the kernel who connected. A pid that was reused before we
// looked is told apart where the kernel gives us a pidfd.
func readPeer(fd int) (Peer, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Peer{}, fmt.Errorf("read peer credentials: %w", err)
	}
	p := Peer{PID: int(cred.Pid), UID: cred.Uid}
	started, err := StartTime(p.PID)
	if err != nil {
		return p, nil // gone: it can still be told its user's affairs, which it does not read
	}
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, soPeerPidfd)
	switch {
	case errors.Is(err, unix.ENOPROTOOPT): // an older kernel
	case err != nil:
		return p, nil // gone
	default:
		defer unix.Close(pidfd)
		if ended(pidfd) {
			return p, nil
		}
	}
	p.StartTime = started
	return p, nil
}

// ended reports whether the process of a pidfd has ended.
func ended(pidfd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	return err != nil || n > 0
}

// errNoPeer says that the kernel did not name the caller.
var errNoPeer = errors.New("localapi: caller has no peer credentials")

func peerOf(ctx context.Context) (Peer, error) {
	p, ok := ctx.Value(peerKey{}).(Peer)
	if !ok {
		return Peer{}, errNoPeer
	}
	return p, nil
}

// mayUse reports whether the peer may act on a hold of this user.
func (p Peer) mayUse(uid uint32) bool { return p.UID == uid }

// maySee reports whether the peer may know of a hold of this user.
func (p Peer) maySee(uid uint32) bool { return p.UID == uid || p.UID == 0 }

// StartTime reads a process' start time, in clock ticks since boot; with the
// pid it names a process for good.
func StartTime(pid int) (uint64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, fmt.Errorf("process %d: %w", pid, err)
	}
	// The second field is the name in parentheses and may hold anything.
	_, after, ok := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
	fields := strings.Fields(after)
	const startTime = 22 - 3 // field 22, counted from the third
	if !ok || len(fields) <= startTime {
		return 0, fmt.Errorf("process %d: unreadable stat", pid)
	}
	return strconv.ParseUint(fields[startTime], 10, 64)
}

// Alive reports whether exactly this process still runs; a zombie does not.
func Alive(pid int, startTime uint64) bool {
	started, err := StartTime(pid)
	if err != nil || started != startTime {
		return false
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return !ended(fd)
}

// awaitExit returns when the process has ended, or with ctx's error.
func awaitExit(ctx context.Context, pid int, startTime uint64) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil // it is gone already
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return fmt.Errorf("watch process %d: %w", pid, err)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	if started, err := StartTime(pid); err != nil || started != startTime {
		return nil // the pid was reused
	}
	defer context.AfterFunc(ctx, func() { f.Close() })()
	raw, err := f.SyscallConn()
	if err != nil {
		return fmt.Errorf("watch process %d: %w", pid, err)
	}
	err = raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return err == nil && n > 0
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
