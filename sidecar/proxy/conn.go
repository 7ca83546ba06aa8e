package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forgeyard/concurrency/sidecar/gate"
)

// fenced is an upstream connection whose writes are checked: the first one of
// a call as an admission, the later ones against the hard deadline.
type fenced struct {
	net.Conn              // TLS where the provider has it
	raw      *net.TCPConn // what linger is set on

	mu      sync.Mutex // one write, or one look at what was written
	permit  *gate.Permit
	written int64 // of the present call
	refusal *gate.Refusal
}

// Write implements net.Conn: the third check, as close to the kernel as it can
// be.
func (f *fenced) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.permit == nil {
		return 0, errors.New("proxy: write without a permit")
	}
	check := f.permit.CheckRunning
	if f.written == 0 {
		check = f.permit.Check
	}
	if refused := check(); refused != nil {
		f.refusal = refused
		f.raw.Close() // linger 0: what the kernel still has is dropped
		return 0, refused
	}
	n, err := f.Conn.Write(b)
	f.written += int64(n)
	return n, err
}

// begin binds the connection to one call.
func (f *fenced) begin(p gate.Permit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.permit, f.written, f.refusal = &p, 0, nil
}

// end takes the call off again: nothing more is written under it.
func (f *fenced) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.permit = nil
}

// verdict ends a call that has no answer and says what became of its writes.
// It cuts first, which ends a write that is under way, and then waits for it:
// a look beside it could find "nothing was sent" a moment too early.
func (f *fenced) verdict() (written int64, refused *gate.Refusal) {
	f.cut()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.permit = nil
	return f.written, f.refusal
}

// cut resets the connection: the peer gets a RST, and nothing that the kernel
// had buffered (FC-102).
func (f *fenced) cut() { f.raw.Close() }

// settled lets the kernel close in order: everything was answered.
func (f *fenced) settled() { _ = f.raw.SetLinger(-1) } // a closed socket needs none

// dialer makes fenced connections to one provider.
type dialer struct {
	net net.Dialer
	tls *tls.Config // nil: plain
}

const dialTimeout = 10 * time.Second

func newDialer(cfg *tls.Config, ttl time.Duration) dialer {
	return dialer{tls: cfg, net: net.Dialer{Timeout: dialTimeout, Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		ctl := c.Control(func(fd uintptr) {
			err = errors.Join(
				// From the dial on: after a close at the deadline the kernel would
				// go on to deliver megabytes.
				unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 0}),
				unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int((ttl*3/4).Milliseconds())),
			)
		})
		return errors.Join(ctl, err)
	}}}
}

// dial connects, with the TLS handshake done: bytes of the handshake are no
// bytes of the call.
func (d dialer) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	conn, err := d.net.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	raw := conn.(*net.TCPConn)
	if d.tls == nil {
		return &fenced{Conn: raw, raw: raw}, nil
	}
	secure := tls.Client(raw, d.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return &fenced{Conn: secure, raw: raw}, nil
}
