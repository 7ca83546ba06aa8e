package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oklog/ulid/v2"

	"github.com/forgeyard/concurrency/authority/engine"
	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/lease"
)

type namedStore struct {
	name string
	open func(testing.TB) store.Store
}

func stores() []namedStore {
	return []namedStore{
		{"sqlite", func(t testing.TB) store.Store { return newFiles(t).open(t, clock.System()) }},
		{"postgres", func(t testing.TB) store.Store { return openPostgres(t, newDatabase(t)) }},
	}
}

// BenchmarkAcquireRelease is one acquire and one release of a scope of one's
// own, durable, without a wire in between. PERFORMANCE.md has the facts to
// compare with.
func BenchmarkAcquireRelease(b *testing.B) {
	for _, s := range stores() {
		for _, callers := range []int{1, 16, 128} {
			b.Run(fmt.Sprintf("%s/callers=%d", s.name, callers), func(b *testing.B) {
				var transactions, commands atomic.Int64
				o := options(clock.System())
				o.Committed = func(cmds []fold.Command, _ fold.Outcome) {
					transactions.Add(1)
					commands.Add(int64(len(cmds)))
				}
				pairs(b, start(b, s.open(b), o), callers)
				b.ReportMetric(float64(commands.Load())/float64(transactions.Load()), "commands/tx")
			})
		}
	}
}

func pairs(b *testing.B, e *engine.Engine, callers int) {
	n := register(b, e, "node-a")
	var wait sync.WaitGroup
	work := make(chan struct{}, b.N)
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	b.ResetTimer()
	for i := range callers {
		wait.Add(1)
		go func() {
			defer wait.Done()
			s := environment(b, fmt.Sprintf("e%d", i))
			for range work {
				leaseID := ulid.Make().String()
				got, err := e.Do(context.Background(), fold.Command{Command: id("node-a"), Action: acquireAction(n, s, leaseID)})
				if err != nil || got.Answer.Code != lease.Acquired {
					b.Error(got.Answer.Code, got.Answer.Detail, err)
					return
				}
				_, err = e.Do(context.Background(), fold.Command{Command: id("node-a"), Action: fold.Release(s, policy, lease.ReleaseRequest{
					Ref: lease.Ref{Session: n.session, Nonce: n.nonce, Lease: leaseID, Epoch: got.Answer.Epoch}, Why: lease.Released,
				})})
				if err != nil {
					b.Error(err)
					return
				}
			}
		}()
	}
	wait.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}

// BenchmarkHeartbeat is one renewal of a session of one's own.
func BenchmarkHeartbeat(b *testing.B) {
	for _, s := range stores() {
		for _, nodes := range []int{1, 128} {
			b.Run(fmt.Sprintf("%s/nodes=%d", s.name, nodes), func(b *testing.B) {
				e := start(b, s.open(b), options(clock.System()))
				var wait sync.WaitGroup
				sessions := make([]*node, nodes)
				for i := range sessions {
					sessions[i] = register(b, e, fmt.Sprintf("node-%d", i))
				}
				b.ResetTimer()
				for i, n := range sessions {
					wait.Add(1)
					go func() {
						defer wait.Done()
						for j := i; j < b.N; j += nodes {
							a, err := e.Beat(context.Background(), lease.Beat{Session: n.session, Nonce: n.nonce})
							if err != nil || a.Code != lease.Renewed {
								b.Error(a, err)
								return
							}
						}
					}()
				}
				wait.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "beats/s")
			})
		}
	}
}
