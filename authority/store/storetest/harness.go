package storetest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// MaxTTL is what a harness opens its store with.
const MaxTTL = time.Minute

// DB is one set of records of an implementation.
type DB interface {
	// Open opens the records once more: as another replica where the
	// implementation has any, else as the same process.
	Open(t testing.TB) store.Store
	// Waiting counts the transactions that wait for a lock at this moment or,
	// where that cannot be seen, that ever had to wait.
	Waiting(t testing.TB) int64
}

// Harness makes fresh, empty records.
type Harness func(t testing.TB) DB

// Case is one case of the suite.
type Case struct {
	Name string
	Run  func(t *testing.T, b *Bench)
}

// Cases is the whole suite, by concept.
func Cases() []Case {
	var all []Case
	for _, part := range [][]Case{
		commandCases(), scopeCases(), leaseCases(), sessionCases(), heartbeatCases(), generationCases(),
		evidenceCases(), setCases(), sweepCases(), tokenCases(), nodeCases(), readCases(), faultCases(),
	} {
		all = append(all, part...)
	}
	return all
}

// Run runs every case on fresh records.
func Run(t *testing.T, h Harness) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, newBench(t, h(t)))
		})
	}
}

// RunCase runs the one case that names a field case or invariant.
func RunCase(t *testing.T, h Harness, id string) {
	t.Helper()
	for _, c := range Cases() {
		if strings.Contains(c.Name, id) {
			c.Run(t, newBench(t, h(t)))
			return
		}
	}
	t.Fatalf("no case names %s", id)
}

// Bench is what a case works with.
type Bench struct {
	DB    DB
	Store store.Store
	Start store.Standing
	seq   atomic.Int64
}

func newBench(t *testing.T, db DB) *Bench {
	b := &Bench{DB: db, Store: db.Open(t)}
	var err error
	b.Start, err = b.Store.Enlist(t.Context(), store.Incarnation{ID: "I1", Live: 3 * time.Second})
	require.NoError(t, err)
	return b
}

// policy is that of every scope of the suite.
func policy() lease.Policy {
	return lease.Policy{
		Requirement: lease.Exclusive, MinTTL: lease.TTLFloor, MaxTTL: MaxTTL, LockDelay: time.Second,
		ClaimTimeout: 10 * time.Second, OnUncleanEnd: lease.FreeAfter,
	}
}

func facts(l store.Loaded) lease.Facts {
	return lease.Facts{Now: l.Now, Generation: l.Generation, Pause: lease.NoPause(), MaxTTL: MaxTTL, LockDelay: time.Second}
}

// id is a name that is new in this case.
func (b *Bench) id(prefix string) string { return fmt.Sprintf("%s%06d", prefix, b.seq.Add(1)) }

func named(t testing.TB, name string) scope.Scope {
	t.Helper()
	s, err := scope.New("acme", scope.Environment, name)
	require.NoError(t, err)
	return s
}

// command is a fresh command of one principal.
func (b *Bench) command() store.Command {
	return store.Command{ID: b.id("C"), Principal: "node n", Digest: sha256.Sum256([]byte("request"))}
}

// open inserts a session that is alive for ttl.
func (b *Bench) open(t testing.TB, node string, ttl time.Duration) lease.Session {
	t.Helper()
	var s lease.Session
	err := b.Store.Transact(t.Context(), store.Batch{Nodes: []string{node}}, func(l store.Loaded) (store.Changes, error) {
		ch, a := lease.Register(facts(l), nil, lease.RegisterRequest{
			Session: "S-" + node, Node: node, Tenants: []string{"acme"}, Nonce: "nonce-" + node, BootID: "boot",
			LockFile: lease.LockFile{Device: 1, Inode: 1<<63 + 7}, TTL: ttl,
		})
		s = *a.Session
		return store.Changes{Sessions: ch.Sessions}, nil
	})
	require.NoError(t, err)
	return s
}

// caseOf cuts one scope out of what was loaded.
func caseOf(l store.Loaded, s scope.Scope) lease.Case {
	return lease.Case{Scope: l.Scopes[s.ID()], Leases: l.Leases[s.ID()], Sessions: l.Sessions}
}

// written is what a rule's change writes.
func written(ch lease.Change) store.Changes {
	c := store.Changes{Leases: ch.Leases, Sessions: ch.Sessions, Audit: ch.Audit, Evidence: ch.Evidence}
	if ch.Scope != nil {
		c.Scopes = []lease.Record{*ch.Scope}
	}
	return c
}

// acquire runs the rule in one transaction of st.
func (b *Bench) acquire(ctx context.Context, st store.Store, sc scope.Scope, s lease.Session) (lease.Answer, error) {
	var a lease.Answer
	id := b.id("L")
	err := st.Transact(ctx, store.Batch{Scopes: []scope.Scope{sc}, Sessions: []string{s.ID}}, func(l store.Loaded) (store.Changes, error) {
		var ch lease.Change
		ch, a = lease.Acquire(facts(l), policy(), caseOf(l, sc), lease.AcquireRequest{
			Session: s.ID, Nonce: s.Nonce, LeaseID: id, Holder: lease.Holder{Kind: lease.HolderRun, ID: s.Node}, Purpose: lease.Work,
		})
		return written(ch), nil
	})
	return a, err
}

// hold acquires and claims.
func (b *Bench) hold(t testing.TB, sc scope.Scope, s lease.Session) lease.Lease {
	t.Helper()
	a, err := b.acquire(t.Context(), b.Store, sc, s)
	require.NoError(t, err)
	require.Equal(t, lease.Acquired, a.Code, a.Detail)
	return b.claim(t, *a.Lease, s)
}

func (b *Bench) claim(t testing.TB, l lease.Lease, s lease.Session) lease.Lease {
	t.Helper()
	var a lease.Answer
	err := b.Store.Transact(t.Context(), store.Batch{Scopes: []scope.Scope{l.Scope}, Sessions: []string{s.ID}}, func(ld store.Loaded) (store.Changes, error) {
		var ch lease.Change
		ch, a = lease.Claim(facts(ld), policy(), caseOf(ld, l.Scope), lease.Ref{Session: s.ID, Nonce: s.Nonce, Lease: l.ID, Epoch: l.Epoch})
		return written(ch), nil
	})
	require.NoError(t, err)
	require.Equal(t, lease.Claimed, a.Code, a.Detail)
	return *a.Lease
}

// pair runs first, and second once first is inside its transaction; first
// commits when second provably waits. What second was shown is what counts.
func (b *Bench) pair(t *testing.T, firstBatch, secondBatch store.Batch, first, second func(store.Loaded) (store.Changes, error)) {
	t.Helper()
	other := b.DB.Open(t)
	before := b.DB.Waiting(t)
	inside, release := make(chan struct{}), make(chan struct{})
	errs := make(chan error, 2)
	entered := false
	go func() {
		errs <- b.Store.Transact(context.Background(), firstBatch, func(l store.Loaded) (store.Changes, error) {
			if !entered { // a retry does not stop again
				entered = true
				close(inside)
				<-release
			}
			return first(l)
		})
	}()
	<-inside
	var done atomic.Bool
	go func() {
		errs <- other.Transact(context.Background(), secondBatch, func(l store.Loaded) (store.Changes, error) {
			if !done.Load() {
				t.Error("the second transaction decided while the first was open")
			}
			return second(l)
		})
	}()
	await(t, "the second transaction waits", func() bool { return b.DB.Waiting(t) > before })
	done.Store(true)
	close(release)
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
}

// await polls: whether somebody waits for a lock can only be asked for. It is
// the one place of the suite that does.
func await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-ctx.Done():
			t.Fatalf("not seen within ten seconds: %s", what)
		case <-tick.C:
		}
	}
}
