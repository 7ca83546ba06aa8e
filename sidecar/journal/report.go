package journal

import (
	"slices"

	"github.com/forgeyard/concurrency/shared/effect"
)

// note keeps e for the next report, unless it began and settled between two.
func (x *index) note(e effect.Effect) {
	if _, told := x.told[e.ID]; isSettled(e.State) && !told {
		delete(x.news, e.ID)
		return
	}
	x.news[e.ID] = struct{}{}
}

// Changes returns up to limit effects, oldest first, whose state differs from
// the last one that was Acknowledged: open and unknown ones, and settled ones
// that an earlier call returned before they were settled. What is not
// acknowledged comes again.
func (j *Journal) Changes(limit int) []effect.Effect {
	j.mu.Lock()
	defer j.mu.Unlock()
	ids := sortedKeys(j.index.news)
	ids = ids[:min(len(ids), limit)]
	out := make([]effect.Effect, 0, len(ids))
	for _, id := range ids {
		j.index.told[id] = struct{}{}
		out = append(out, j.index.byID[id])
	}
	return out
}

// Acknowledge says that the authority has what Changes returned. What changed
// since stays due.
func (j *Journal) Acknowledge(sent []effect.Effect) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range sent {
		now, known := j.index.byID[e.ID]
		if known && now.State != e.State {
			continue
		}
		delete(j.index.news, e.ID)
		if isSettled(e.State) {
			delete(j.index.told, e.ID)
		}
	}
}

// Reconcile settles an unknown effect by what somebody saw of it; others stay as
// they are.
func (j *Journal) Reconcile(id string, outcome effect.State, seen string) {
	j.mu.Lock()
	e, ok := j.index.byID[id]
	j.mu.Unlock()
	if !ok || e.State != effect.Unknown {
		return
	}
	e.State, e.Observed, e.Reason, e.SettledAt = effect.Reconciled, outcome, string(outcome)+": "+seen, j.cfg.Clock.Now()
	_ = j.enqueue(write{effect: e}) // lost, it is Unknown still, and can be resolved again
}

// Told says that the authority was told of an effect outside Changes: its
// outcome is due there.
func (j *Journal) Told(id string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.index.told[id] = struct{}{}
}

// Retell makes the settled effects of these leases due again: a process before
// this one may have told that they were open.
func (j *Journal) Retell(leases []string) {
	of := make(map[string]bool, len(leases))
	for _, l := range leases {
		of[l] = true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, e := range j.index.byID {
		if isSettled(e.State) && !e.Refused && of[e.Lease] {
			j.index.told[id], j.index.news[id] = struct{}{}, struct{}{}
		}
	}
}

// Left returns up to limit effects of a lease: those that are open or unknown,
// then those of which the authority may not know that they are settled.
func (j *Journal) Left(lease string, limit int) []effect.Effect {
	j.mu.Lock()
	defer j.mu.Unlock()
	var ids []string
	if u := j.index.unended[lease]; u != nil {
		ids = sortedKeys(u.ids)
	}
	for _, id := range sortedKeys(j.index.news) {
		if e := j.index.byID[id]; e.Lease == lease && isSettled(e.State) {
			ids = append(ids, id)
		}
	}
	ids = ids[:min(len(ids), limit)]
	out := make([]effect.Effect, 0, len(ids))
	for _, id := range ids {
		out = append(out, j.index.byID[id])
	}
	return out
}

func sortedKeys(set map[string]struct{}) []string {
	out := make([]string, 0, len(set))
	for id := range set {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}
