package chaos_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/forgeyard/concurrency/e2e/cluster"
	"github.com/forgeyard/concurrency/e2e/history"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

const controllers = 10

// scopes: half of them reconcile.
var scopes = []string{"acme/environment:free-1", "acme/environment:free-2", "acme/environment:rec-1", "acme/environment:rec-2"}

// tally counts what the controllers met.
type tally struct {
	operations, grants, notGranted, written, refused, unanswered, released, killed atomic.Int64

	mu      sync.Mutex
	refusal map[string]int // by code
}

func (c *tally) refuse(code string) {
	c.refused.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusal[code]++
}

// load runs controllers until ctx is done.
func (w *world) load(ctx context.Context, seed uint64, c *tally) {
	var all sync.WaitGroup
	for i := range controllers {
		rng := rand.New(rand.NewPCG(seed, uint64(100+i)))
		all.Go(func() {
			for ctx.Err() == nil {
				w.operate(ctx, rng, c)
			}
		})
	}
	all.Wait()
}

// operate takes a scope as a controller of its own process, writes, and gives
// it back or is killed. What is not acknowledged is no promise.
func (w *world) operate(ctx context.Context, rng *rand.Rand, c *tally) {
	n, scope := w.nodes[rng.IntN(len(w.nodes))], scopes[rng.IntN(len(scopes))]
	dies, writes, large := rng.IntN(6) == 0, 1+rng.IntN(3), rng.IntN(8) == 0
	if rng.IntN(4) == 0 { // a long job, which a fault finds at work
		writes, large = 30, false
	}
	c.operations.Add(1)
	controller := exec.Command("sleep", "3600")
	if controller.Start() != nil {
		return
	}
	defer func() { controller.Process.Kill(); controller.Wait() }()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	local := cluster.NewLocal(n.Socket)
	defer local.Close()
	called := w.history.At(time.Now())
	hold, err := local.Acquire(ctx, &pb.HoldRequest{Scope: scope, Pid: int32(controller.Process.Pid), Wait: durationpb.New(5 * time.Second)})
	if err != nil {
		c.notGranted.Add(1)
		pause(ctx, time.Duration(rng.IntN(200))*time.Millisecond)
		return
	}
	c.grants.Add(1)
	w.history.Granted(history.Grant{
		Scope: scope, Node: n.name, Lease: hold.GetLease(), Epoch: hold.GetEpoch(), Called: called, Returned: w.history.At(time.Now()),
	})
	for range writes {
		half := "/unguarded/"
		if rng.IntN(2) == 0 {
			half = "/guarded/"
		}
		if !w.write(ctx, hold.GetBaseUrls()["target"]+half+"x", large, c) {
			break
		}
		pause(ctx, time.Duration(rng.IntN(100))*time.Millisecond)
	}
	if dies {
		c.killed.Add(1)
		return // the deferred kill -9, while it holds
	}
	if _, err := local.Release(ctx, hold.GetHoldKey()); err == nil {
		c.released.Add(1)
	}
}

// write sends one mutation; a large one goes on for most of a ttl. It reports
// whether the next makes sense.
func (w *world) write(ctx context.Context, url string, large bool, c *tally) bool {
	body := io.Reader(bytes.NewReader([]byte("plan")))
	if large {
		body = &trickle{ctx: ctx, left: 40}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, body)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.unanswered.Add(1)
		return false
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	if code := resp.Header.Get("Forgeyard-Refusal"); code != "" {
		c.refuse(code)
		return code == "uncertain"
	}
	if resp.StatusCode != http.StatusNoContent {
		c.refuse(fmt.Sprintf("provider-%d", resp.StatusCode))
		return false
	}
	c.written.Add(1)
	return true
}

// trickle is a body that takes its time: 1 KiB each 30 ms.
type trickle struct {
	ctx  context.Context
	left int
}

// Read implements io.Reader.
func (t *trickle) Read(p []byte) (int, error) {
	if t.left == 0 {
		return 0, io.EOF
	}
	t.left--
	pause(t.ctx, 30*time.Millisecond)
	n := min(len(p), 1024)
	clear(p[:n])
	return n, t.ctx.Err()
}
