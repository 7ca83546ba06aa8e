package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/authority/engine"
	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/authority/roster"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/clock"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// Policies finds the policy of a scope and the configuration path it is from.
type Policies interface {
	For(s scope.Scope) (p lease.Policy, source string)
}

// Config of a Coordinator; every field but Issuer is needed.
type Config struct {
	Store    store.Store
	Engine   *engine.Engine
	Roster   *roster.Roster
	Moved    func([]fold.Moved) // tells the nodes of these sessions; must not block
	Policies Policies
	Sealer   fold.Sealer
	Clock    clock.Clock
	Log      *zap.Logger
	Metrics  prometheus.Registerer
	Issuer   Issuer // nil: nodes cannot enrol here

	MaxTTL     time.Duration // of any session
	LockDelay  time.Duration
	SweepGrace time.Duration // an expired lease that nobody asks for is ended after it
	Retention  store.Retention

	Replica     string // the name of this one, for people
	Incarnation string
	StoreKind   string // for people
	Software    string
}

// Coordinator is safe for concurrent use.
type Coordinator struct {
	cfg     Config
	metrics *metrics
	wakers  wakers
}

// New makes a coordinator. The engine's Committed hook must call Committed.
func New(c Config) *Coordinator {
	return &Coordinator{cfg: c, metrics: newMetrics(c.Metrics)}
}

// ErrNotFound says that there is no such thing, or that it belongs to a tenant
// that is not the caller's: the two answer alike.
var ErrNotFound = errors.New("not found")

// InputError says which field of a request is wrong.
type InputError struct {
	Field   string
	Value   string
	Problem string
}

// Error implements error.
func (e *InputError) Error() string { return fmt.Sprintf("%s %q: %s", e.Field, e.Value, e.Problem) }

// Caller is a connected node, as its certificate names it.
type Caller struct {
	Node        string
	Tenants     []string
	Certificate store.Certificate
}

func (c Caller) principal() string { return "node:" + c.Node }

// Committed counts and tells what a transaction did; the engine calls it after
// each commit.
func (c *Coordinator) Committed(commands []fold.Command, out fold.Outcome) {
	c.metrics.count(commands, out)
	for i, r := range out.Results {
		if r.Defect != nil {
			c.cfg.Log.Error("a rule's change was refused by the authority's own check",
				zap.String("verb", string(commands[i].Action.Verb)), zap.Stringer("scope", commands[i].Action.Scope), zap.Error(r.Defect))
		}
	}
	for _, l := range out.Ended {
		c.cfg.Log.Info("lease ended", zap.Stringer("scope", l.Scope), zap.String("node", l.Node),
			zap.Stringer("epoch", l.Epoch), zap.String("state", string(l.EndReason)))
	}
	c.cfg.Moved(out.Moved)
}

// StoreNow estimates the store's clock, for people.
func (c *Coordinator) StoreNow() time.Time { return c.cfg.Engine.StoreNow() }

// do runs a command of a caller.
func (c *Coordinator) do(ctx context.Context, cmd fold.Command) (lease.Answer, bool, error) {
	r, err := c.cfg.Engine.Do(ctx, cmd)
	if err != nil {
		return lease.Answer{}, false, err
	}
	return r.Answer, r.Replayed, nil
}
