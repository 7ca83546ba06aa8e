package fold

import (
	"fmt"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// quarantine closes a scope whose records cannot all be true; what was asked
// for is refused. The change is not proved by lease.Validate: it starts from
// records that no rule can have made.
func (s *state) quarantine(f lease.Facts, a Action, c lease.Case, why string) Result {
	s.apply(a, c, f.Quarantine(lease.Policy{}, c, why))
	return Result{
		Answer: lease.Answer{Code: lease.Rejected, Reason: lease.ScopeQuarantined, Detail: why, Epoch: c.Scope.Epoch},
		Defect: fmt.Errorf("scope %s: %s", c.Scope.Scope, why),
	}
}

// hear compares what nodes bring along with the records.
func (s *state) hear(f lease.Facts, witnesses []Witness) error {
	for _, w := range witnesses {
		a := Action{Scope: w.Scope}
		c := s.caseOf(a)
		ch := f.Testify(w.Policy, c, w.Witness)
		if err := lease.Validate(c, ch); err != nil {
			return err
		}
		s.apply(a, c, ch)
	}
	return nil
}

// Forget is what a cut of the history does to everything that the store still
// has (DESIGN 5.8): the rule of every scope, under the raised generation.
func Forget(f lease.Facts, l store.Loaded, policyOf func(scope.Scope) lease.Policy, why string) (store.Changes, error) {
	st := newState(l)
	for _, rec := range l.Scopes {
		a := Action{Scope: rec.Scope}
		c := st.caseOf(a)
		if contradiction := c.Contradiction(); contradiction != "" {
			st.quarantine(f, a, c, contradiction)
			continue
		}
		ch := f.Forget(policyOf(rec.Scope), c, why)
		if err := lease.Validate(c, ch); err != nil {
			return store.Changes{}, fmt.Errorf("forget %s: %w", rec.Scope, err)
		}
		st.apply(a, c, ch)
	}
	return st.changes(), nil
}
