package history

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// standing is the state of the model of one scope.
type standing struct {
	issued uint64 // the newest epoch that was granted
	seen   uint64 // the highest token that the guarded provider accepted
}

// granted and wrote are inputs of the model; operations have no output that
// the input does not say.
type (
	granted struct{ epoch uint64 }
	wrote   struct {
		token             uint64
		guarded, accepted bool
	}
)

// fencing is the sequential specification of one scope.
var fencing = porcupine.Model{
	Init: func() any { return standing{} },
	Step: func(state, input, _ any) (bool, any) {
		s := state.(standing)
		switch op := input.(type) {
		case granted:
			ok := op.epoch > s.issued
			s.issued = op.epoch
			return ok, s
		case wrote:
			return step(s, op)
		}
		return false, s
	},
	Equal: func(a, b any) bool { return a.(standing) == b.(standing) },
	DescribeOperation: func(input, _ any) string {
		switch op := input.(type) {
		case granted:
			return fmt.Sprintf("grant %d", op.epoch)
		case wrote:
			return fmt.Sprintf("write %d guarded=%t accepted=%t", op.token, op.guarded, op.accepted)
		}
		return "?"
	},
	DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
}

func step(s standing, op wrote) (bool, any) {
	switch {
	case !op.guarded: // whoever writes is the newest holder
		return op.token == s.issued, s
	case !op.accepted:
		return op.token < s.seen, s
	case op.token < s.seen:
		return false, s
	}
	s.seen = op.token
	return true, s
}

// Linearizable searches an order of the operations of each scope that the
// model allows, for at most limit a scope. Grants whose answer no client saw
// are not in the history; they only make epochs jump. Undecided lists scopes
// for which the time was too short.
func Linearizable(grants []Grant, writes []Write, limit time.Duration) (violations []Violation, undecided []string) {
	ops := map[string][]porcupine.Operation{}
	add := func(scope string, op porcupine.Operation) {
		op.ClientId = len(ops[scope])
		ops[scope] = append(ops[scope], op)
	}
	for _, g := range grants {
		add(g.Scope, porcupine.Operation{Input: granted{g.Epoch}, Call: int64(g.Called), Return: int64(g.Returned)})
	}
	for _, w := range writes {
		if w.Cut && w.Guarded {
			continue // no decision of the guard
		}
		end := int64(max(w.LastByte, w.Finished, w.Arrived+1))
		add(w.Scope, porcupine.Operation{Input: wrote{w.Token, w.Guarded, w.Accepted}, Call: int64(w.Arrived), Return: end})
	}
	for scope, list := range ops {
		switch porcupine.CheckOperationsTimeout(fencing, unseen(list), limit) {
		case porcupine.Illegal:
			violations = append(violations, Violation{"linearizability", scope, fmt.Sprintf("no order of its %d operations explains what was seen", len(list))})
		case porcupine.Unknown:
			undecided = append(undecided, scope)
		case porcupine.Ok:
		}
	}
	return violations, undecided
}

// unseen adds, for each token that was written with but whose grant no client
// saw (its process was killed before the answer), a grant of unknown time.
func unseen(list []porcupine.Operation) []porcupine.Operation {
	known, first := map[uint64]bool{}, map[uint64]int64{}
	for _, op := range list {
		switch in := op.Input.(type) {
		case granted:
			known[in.epoch] = true
		case wrote:
			if at, ok := first[in.token]; !ok || op.Return < at {
				first[in.token] = op.Return
			}
		}
	}
	for token, at := range first {
		if !known[token] {
			list = append(list, porcupine.Operation{ClientId: len(list), Input: granted{token}, Call: math.MinInt64, Return: at})
		}
	}
	return list
}
