package policy

import (
	"errors"
	"fmt"
	"time"

	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// Config is the policy section of a configuration.
type Config struct {
	Version uint64 `config:"version"`
	Rules   []Rule `config:"rules"`
}

// Rule changes the policy of the scopes that it matches. Empty fields leave
// what was there.
type Rule struct {
	Match        string             `config:"match"` // tenant/kind:name, with * for any run of characters
	Why          string             `config:"why"`   // for people
	Requirement  lease.Requirement  `config:"requirement"`
	MinTTL       time.Duration      `config:"min_ttl"`
	MaxTTL       time.Duration      `config:"max_ttl"`
	LockDelay    time.Duration      `config:"lock_delay"`
	ClaimTimeout time.Duration      `config:"claim_timeout"`
	MaxHold      time.Duration      `config:"max_hold"`
	OnUncleanEnd lease.OnUncleanEnd `config:"on_unclean_end"`
	Supersedable *bool              `config:"supersedable"`
	Confirm      Confirm            `config:"confirm"`
}

// Confirm says what a sidecar asks the authority before it sends an effect.
type Confirm string

// PerEffect: each effect is recorded by the authority, under a live lease,
// before it is sent. It costs a round trip and a commit; it makes a process that
// is paused between its last check and the send harmless, because nobody gets
// the scope before somebody accounts for what was confirmed (DESIGN 2).
const PerEffect Confirm = "per-effect"

// DefaultConfig has no rules: the defaults of the kinds hold.
func DefaultConfig() Config { return Config{Version: 1} }

// Defaults of DESIGN 3 and 4 that do not depend on the kind.
const (
	DefaultMaxTTL       = time.Minute
	DefaultClaimTimeout = 10 * time.Second
)

// Default is the policy of a kind without any rule.
func Default(k scope.Kind) lease.Policy {
	p := lease.Policy{
		Requirement: lease.Exclusive, MinTTL: lease.TTLFloor, MaxTTL: DefaultMaxTTL,
		LockDelay: lease.DefaultBudget().LockDelay, ClaimTimeout: DefaultClaimTimeout, OnUncleanEnd: lease.ReconcileAfter,
	}
	switch k {
	case scope.WorkflowGroup:
		p.OnUncleanEnd, p.Supersedable = lease.FreeAfter, true
	case scope.Device:
		p.OnUncleanEnd = lease.CleanAfter
	case scope.RunnerFleet, scope.TestAccount, scope.SigningSlot, scope.Custom:
		p.OnUncleanEnd = lease.FreeAfter
	case scope.Environment, scope.InfraEnv, scope.MergeTarget, scope.ReleaseChannel, scope.Migration:
	}
	return p
}

// For returns the policy of s and where it comes from.
func (c Config) For(s scope.Scope) (lease.Policy, string) {
	p, source := Default(s.Kind()), "default of "+string(s.Kind())
	text := s.String()
	for i, r := range c.Rules {
		if Match(r.Match, text) {
			p, source = r.over(p), rulePath(i)
		}
	}
	if p.ConfirmEach {
		p.OnUncleanEnd = lease.ReconcileAfter // a later rule for more scopes must not take it away
	}
	p.Version = c.Version
	return p, source
}

func rulePath(i int) string { return fmt.Sprintf("policy.rules[%d]", i) }

// over lays the rule over p.
func (r Rule) over(p lease.Policy) lease.Policy {
	span := func(to *time.Duration, v time.Duration) {
		if v != 0 {
			*to = v
		}
	}
	span(&p.MinTTL, r.MinTTL)
	span(&p.MaxTTL, r.MaxTTL)
	span(&p.LockDelay, r.LockDelay)
	span(&p.ClaimTimeout, r.ClaimTimeout)
	span(&p.MaxHold, r.MaxHold)
	if r.Requirement != "" {
		p.Requirement = r.Requirement
	}
	if r.OnUncleanEnd != "" {
		p.OnUncleanEnd = r.OnUncleanEnd
	}
	if r.Supersedable != nil {
		p.Supersedable = *r.Supersedable
	}
	if r.Confirm == PerEffect {
		p.ConfirmEach = true
	}
	return p
}

// Problem is one thing that is wrong, with its path below the section.
type Problem struct {
	Path string
	Text string
}

// Problems lists everything that is wrong.
func (c Config) Problems() []Problem {
	var out []Problem
	for i, r := range c.Rules {
		for _, p := range r.problems() {
			out = append(out, Problem{Path: fmt.Sprintf("rules[%d].%s", i, p.Path), Text: p.Text})
		}
	}
	return out
}

// Validate joins the problems.
func (c Config) Validate() error {
	var errs []error
	for _, p := range c.Problems() {
		errs = append(errs, fmt.Errorf("policy.%s: %s", p.Path, p.Text))
	}
	return errors.Join(errs...)
}

func (r Rule) problems() []Problem {
	var out []Problem
	demand := func(ok bool, path, format string, args ...any) {
		if !ok {
			out = append(out, Problem{Path: path, Text: fmt.Sprintf(format, args...)})
		}
	}
	demand(r.Match != "", "match", "\"\": must be a pattern such as acme/environment:prod-*")
	demand(r.Requirement == "" || r.Requirement == lease.Exclusive,
		"requirement", "%q: this authority decides exclusive scopes", r.Requirement)
	demand(r.MinTTL == 0 || r.MinTTL >= lease.TTLFloor, "min_ttl", "%s: must be at least %s", r.MinTTL, lease.TTLFloor)
	least := max(r.MinTTL, lease.TTLFloor)
	demand(r.MaxTTL == 0 || r.MaxTTL >= least, "max_ttl", "%s: must be at least %s", r.MaxTTL, least)
	demand(r.LockDelay >= 0, "lock_delay", "%s: must not be negative", r.LockDelay)
	demand(r.ClaimTimeout >= 0, "claim_timeout", "%s: must not be negative", r.ClaimTimeout)
	demand(r.MaxHold >= 0, "max_hold", "%s: must not be negative", r.MaxHold)
	demand(r.Confirm == "" || r.Confirm == PerEffect, "confirm", "%q: must be %s", r.Confirm, PerEffect)
	demand(r.Confirm == "" || r.OnUncleanEnd == lease.ReconcileAfter,
		"confirm", "%q: needs on_unclean_end: %s beside it, not %q", r.Confirm, lease.ReconcileAfter, r.OnUncleanEnd)
	switch r.OnUncleanEnd {
	case "", lease.ReconcileAfter, lease.FreeAfter, lease.CleanAfter:
	default:
		demand(false, "on_unclean_end", "%q: must be reconcile, free or clean", r.OnUncleanEnd)
	}
	return out
}

// Entry is one policy with the path it comes from.
type Entry struct {
	Path   string // below the section
	Policy lease.Policy
}

// All lists the policies that the rules make, each over the default of every
// kind that it can match, for checks that relate them to other figures.
func (c Config) All() []Entry {
	var out []Entry
	for i, r := range c.Rules {
		out = append(out, Entry{Path: fmt.Sprintf("rules[%d]", i), Policy: r.over(Default(scope.Environment))})
	}
	return out
}
