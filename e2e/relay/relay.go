package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Direction says which way bytes go.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// Relay accepts on Addr and carries to its target.
type Relay struct {
	Addr string

	ln   net.Listener
	done sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every change of the faults
	target  string
	delay   time.Duration
	silent  [2]bool
	losing  bool // the next answer of the server is lost and its connection cut
	lost    int
	conns   map[*pipe]struct{}
	closed  bool
}

// New listens on a free port of the loopback and carries to target.
func New(target string) (*Relay, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for relay: %w", err)
	}
	r := &Relay{Addr: ln.Addr().String(), ln: ln, target: target, changed: make(chan struct{}), conns: map[*pipe]struct{}{}}
	r.done.Add(1)
	go r.accept()
	return r, nil
}

// Close ends every connection.
func (r *Relay) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.ln.Close()
	r.Cut()
	r.done.Wait()
}

// Target sends later connections elsewhere.
func (r *Relay) Target(addr string) { r.change(func() { r.target = addr }) }

// Delay holds every byte up for d, both ways.
func (r *Relay) Delay(d time.Duration) { r.change(func() { r.delay = d }) }

// Silence stops or lets through what goes that way.
func (r *Relay) Silence(d Direction, silent bool) { r.change(func() { r.silent[d] = silent }) }

// LoseAnswer loses the next bytes that the server answers, and cuts that
// connection: what was asked has been done, and nobody learns it.
func (r *Relay) LoseAnswer() { r.change(func() { r.losing = true }) }

// Lost is how many answers were lost.
func (r *Relay) Lost() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// Heal takes back every fault but the target.
func (r *Relay) Heal() {
	r.change(func() { r.delay, r.silent, r.losing = 0, [2]bool{}, false })
}

// Cut ends the connections that are open.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.conns {
		p.close()
	}
}

func (r *Relay) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *Relay) accept() {
	defer r.done.Done()
	for {
		c, err := r.ln.Accept()
		if err != nil {
			return
		}
		r.done.Add(1)
		go r.carry(c)
	}
}

// pipe is one connection through the relay.
type pipe struct {
	client, server net.Conn
	ctx            context.Context
	cancel         context.CancelFunc
}

func (p *pipe) close() {
	p.cancel()
	p.client.Close()
	p.server.Close()
}

func (r *Relay) carry(client net.Conn) {
	defer r.done.Done()
	r.mu.Lock()
	target := r.target
	r.mu.Unlock()
	server, err := net.DialTimeout("tcp", target, time.Second)
	if err != nil {
		client.Close()
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &pipe{client: client, server: server, ctx: ctx, cancel: cancel}
	defer p.close()
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return
	}
	r.conns[p] = struct{}{}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.conns, p)
	}()
	r.done.Add(1)
	go func() {
		defer r.done.Done()
		defer p.close()
		r.copy(p, p.server, p.client, ToServer)
	}()
	r.copy(p, p.client, p.server, ToClient)
}

func (r *Relay) copy(p *pipe, to io.Writer, from io.Reader, d Direction) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !r.pass(p.ctx, d) {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// errCut ends a connection whose answer is lost.
var errCut = errors.New("relay: answer lost")

// pass waits until bytes may go that way; false ends the connection.
func (r *Relay) pass(ctx context.Context, d Direction) bool {
	for {
		wait, changed, err := r.fate(d)
		if err != nil {
			return false
		}
		switch {
		case wait == 0:
			return true
		case wait > 0:
			timer := time.NewTimer(wait)
			defer timer.Stop()
			select {
			case <-timer.C:
				return true
			case <-ctx.Done():
				return false
			}
		}
		select { // silent
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// fate is 0 to go on, a delay, or -1 while that way is silent.
func (r *Relay) fate(d Direction) (time.Duration, <-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d == ToClient && r.losing {
		r.losing = false
		r.lost++
		return 0, nil, errCut
	}
	if r.silent[d] {
		return -1, r.changed, nil
	}
	return r.delay, nil, nil
}
