package authority

import (
	"github.com/forgeyard/concurrency/authority/coordinator"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/policy"
	"github.com/forgeyard/concurrency/shared/scope"
)

// bounded are the policies within the figures that hold for every session of
// this authority: sidecars build their budget on its lock delay, and no
// session lives longer than its longest ttl.
type bounded struct {
	policies policy.Config
	timing   TimingConfig
}

var _ coordinator.Policies = bounded{}

// For implements coordinator.Policies.
func (b bounded) For(s scope.Scope) (lease.Policy, string) {
	p, source := b.policies.For(s)
	p.LockDelay = max(p.LockDelay, b.timing.LockDelay)
	p.MaxTTL = min(p.MaxTTL, b.timing.MaxTTL)
	return p, source
}

// of is For without the source.
func (b bounded) of(s scope.Scope) lease.Policy {
	p, _ := b.For(s)
	return p
}
