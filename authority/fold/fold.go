package fold

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
)

// Defect is the reason of a command whose change would have broken an
// invariant. It is a fault of this program, and it alarms.
const Defect lease.Reason = "defect"

// Sealer makes the receipts of grants.
type Sealer struct {
	Authority string
	Key       epoch.ReceiptKey
}

// Result is what became of one command.
type Result struct {
	Answer   lease.Answer
	Replayed bool  // the answer was stored before, by this or another replica
	Defect   error // why the change was refused, when Answer.Reason is Defect
}

// Moved names a session whose set somebody else changed: its sidecar is told.
type Moved struct {
	Session string
	Node    string
	Version lease.SetVersion
}

// Outcome is what a transaction did, by index into its commands, beside the
// rows that it wrote.
type Outcome struct {
	Results []Result
	Moved   []Moved
	Ended   []lease.Lease // leases that this transaction ended
}

// AheadError says that a verified receipt is ahead of the store: its history
// was cut. Witness is the highest generation seen, Stored the store's.
type AheadError struct {
	Witness epoch.Generation
	Stored  epoch.Generation
	Detail  string
}

// Error implements error.
func (e *AheadError) Error() string { return "fold: a receipt is ahead of the store: " + e.Detail }

// Run folds cmds, in order, over what was loaded for Needs(cmds). Its only
// error is *AheadError.
func (s Sealer) Run(f lease.Facts, cmds []Command, loaded store.Loaded) (store.Changes, Outcome, error) {
	if err := ahead(cmds, loaded); err != nil {
		return store.Changes{}, Outcome{}, err
	}
	st := newState(loaded)
	out := Outcome{Results: make([]Result, len(cmds))}
	stored := map[int][]byte{}
	index := 0
	for i, c := range cmds {
		if c.ID == "" {
			out.Results[i] = s.one(f, st, c.Action)
			continue
		}
		if earlier, ok := loaded.Replayed[index]; ok {
			out.Results[i] = replay(c, earlier)
		} else {
			out.Results[i], stored[index] = s.fresh(f, st, c)
		}
		index++
	}
	changes := st.changes()
	changes.Results = stored
	out.Moved, out.Ended = st.movedSessions(loaded.Generation), endedLeases(changes)
	return changes, out, nil
}

// fresh runs a command and encodes its answer for the store.
func (s Sealer) fresh(f lease.Facts, st *state, c Command) (Result, []byte) {
	r := s.one(f, st, c.Action)
	text, err := json.Marshal(r.Answer)
	if err != nil { // an Answer holds nothing that JSON cannot say
		r = defect(fmt.Errorf("encode answer: %w", err))
		text, _ = json.Marshal(r.Answer)
	}
	return r, text
}

// one runs the rule of an action and takes over what it changed.
func (s Sealer) one(f lease.Facts, st *state, a Action) Result {
	c := st.caseOf(a)
	if why := c.Contradiction(); why != "" {
		return st.quarantine(f, a, c, why)
	}
	ch, answer := a.rule(f, c)
	if !a.Scope.IsZero() {
		if err := lease.Validate(c, ch); err != nil {
			return defect(err)
		}
	}
	if answer.Code == lease.Acquired && !held(c, *answer.Lease) && st.knows(answer.Lease.ID) {
		return Result{Answer: lease.Answer{
			Code: lease.Rejected, Reason: lease.InvalidRequest,
			Detail: fmt.Sprintf("lease_id %s is of another lease", answer.Lease.ID),
		}}
	}
	st.apply(a, c, ch)
	if err := st.hear(f, a.Witnesses); err != nil {
		return defect(err)
	}
	if answer.Code == lease.Acquired && answer.Lease != nil {
		answer.Receipt = s.Key.Seal(s.Authority, a.Scope.ID(), answer.Lease.Epoch, answer.Lease.Node)
	}
	return Result{Answer: answer}
}

// held reports whether a lease was there before: a claim that is repeated is
// answered with the one that it made.
func held(c lease.Case, l lease.Lease) bool {
	return slices.ContainsFunc(c.Leases, func(before lease.Lease) bool { return before.ID == l.ID && before.Epoch == l.Epoch })
}

func defect(err error) Result {
	return Result{
		Answer: lease.Answer{Code: lease.Rejected, Reason: Defect, Detail: "refused by the authority's own check: " + err.Error()},
		Defect: err,
	}
}

func replay(c Command, earlier store.Stored) Result {
	if earlier.Digest != c.Digest {
		return Result{Answer: lease.Answer{
			Code: lease.Rejected, Reason: lease.KeyConflict,
			Detail: fmt.Sprintf("command_id %s was used for another request", c.ID),
		}}
	}
	var a lease.Answer
	if err := json.Unmarshal(earlier.Result, &a); err != nil {
		return defect(fmt.Errorf("decode stored answer of %s: %w", c.ID, err))
	}
	return Result{Answer: a, Replayed: true}
}

// ahead compares the witnesses with the store. One whose generation lies below
// the present one is no news: every later grant comes out above it.
func ahead(cmds []Command, loaded store.Loaded) error {
	var found *AheadError
	for _, c := range cmds {
		for _, w := range c.Action.Witnesses {
			has := loaded.Scopes[w.Scope.ID()].Epoch
			g := w.Epoch.Generation()
			if w.Epoch <= has || g < loaded.Generation || (found != nil && g <= found.Witness) {
				continue
			}
			found = &AheadError{Witness: g, Stored: loaded.Generation, Detail: fmt.Sprintf("%s has epoch %d, the store %d", w.Scope, w.Epoch, has)}
		}
	}
	if found == nil {
		return nil
	}
	return found
}

func (s *state) movedSessions(g epoch.Generation) []Moved {
	var out []Moved
	for _, v := range s.sessions.all() {
		if s.moved[v.ID] && v.End == lease.SessionOpen {
			out = append(out, Moved{Session: v.ID, Node: v.Node, Version: v.Version(g)})
		}
	}
	return out
}

func endedLeases(c store.Changes) []lease.Lease {
	var out []lease.Lease
	for _, l := range c.Leases {
		if l.State == lease.Ended {
			out = append(out, l)
		}
	}
	return out
}
