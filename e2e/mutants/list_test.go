package mutants_test

// mutant is one guard taken out.
type mutant struct {
	guard string // what it is for
	file  string
	old   string
	new   string
	tests string // package whose tests must fail, and which of them
}

const (
	rules     = "./shared/lease"
	epochs    = "./shared/epoch"
	ownership = "./sidecar/ownership"
	gate      = "./sidecar/gate"
	model     = "./e2e/model -run=TestI1_ExhaustiveSearchFindsNoTwoOwners/"
)

func all() []mutant {
	return []mutant{
		{"I1: a held scope is busy", "shared/lease/acquire.go", "case len(c.Leases) > 0:\n\t\treturn f.busy", "case false:\n\t\treturn f.busy", rules},
		{"I2: a grant raises the epoch", "shared/epoch/epoch.go", "return e + 1, nil", "return e, nil", epochs},
		{"I2: a new generation outdoes every old epoch", "shared/epoch/epoch.go", "if e < first {", "if false {", epochs},
		{"I2: a raise goes above the witness (FC-97)", "shared/epoch/epoch.go", "max(uint64(stored)+1, uint64(witness)+1)", "uint64(stored) + 1", epochs},
		{"I3: a reference names the epoch too (FC-10)", "shared/lease/claim.go", "l.ID == r.Lease && l.Epoch == r.Epoch &&", "l.ID == r.Lease &&", rules},
		{"I3: force release names the epoch that was seen (FC-84)", "shared/lease/force.go", "if l.Epoch != r.Epoch {", "if false {", rules},
		{"I5: the lock delay is waited (DESIGN 4.6)", "shared/lease/facts.go", "!f.pending(s.ExpiresAt.Add(lockDelay), f.span(s)+lockDelay)", "!f.pending(s.ExpiresAt, f.span(s))", rules},
		{"I6: an unclean end closes the scope", "shared/lease/settle.go", "l.Unsettled = !how.clean && p.OnUncleanEnd != FreeAfter", "l.Unsettled = false", rules},
		{"I6: unknown effects make an end unclean", "shared/lease/release.go", "clean: r.Quiescence.Unknown == 0", "clean: true", rules},
		{"I6: a blocked scope admits nobody who wants to work", "shared/lease/acquire.go", "case r.State == Blocked && !admitted:", "case !admitted && admitted:", rules},
		{"I6: only the node itself accounts for its lease", "shared/lease/account.go", "if !ok || l.Node != s.Node {", "if !ok {", rules},
		{"I6: reopening needs every effect resolved", "shared/lease/resolve.go", "case len(c.Evidence) > 0:", "case false:", rules},
		{"I6: a node's word does not undo a cut of history", "shared/lease/account.go", "c.Scope.State != Blocked || c.Scope.Forgotten ||", "c.Scope.State != Blocked ||", rules},
		{"a heartbeat brings back nothing that was ended (FC-02)", "shared/lease/session.go", "func Heartbeat(f Facts, s Session, b Beat) (Session, Answer) {\n\tswitch {", "func Heartbeat(f Facts, s Session, b Beat) (Session, Answer) {\n\ts.End = SessionOpen\n\tswitch {", rules},
		{"another process's nonce is refused (FC-99)", "shared/lease/acquire.go", "case s.Nonce != nonce:", "case false:", rules},
		{"an expired session acquires nothing", "shared/lease/acquire.go", "case !f.Alive(s):", "case false:", rules},
		{"resume needs the same boot (FC-99)", "shared/lease/session.go", "r.BootID != \"\" && r.BootID == s.BootID &&", "", rules},
		{"resume needs the same locked file (FC-99)", "shared/lease/session.go", "r.LockFile != LockFile{} && r.LockFile == s.LockFile", "true", rules},
		{"a live node's second instance waits (FC-06)", "shared/lease/session.go", "if f.silent(s, f.LockDelay) {", "if true {", rules},
		{"a time pause lets no time decide (FC-24)", "shared/lease/facts.go", "return f.pauseLeft(ttl, lockDelay) == 0", "return true", rules},
		{"after a cut nobody is granted within the longest ttl (FC-98)", "shared/lease/acquire.go", "if !f.Pause.Whole || left == 0 {", "if true {", rules},
		{"a deadline further ahead than possible has passed (FC-24)", "shared/lease/facts.go", "return left > 0 && left <= span", "return left > 0", rules},
		{"a drain waits for the holder's silence (FC-90)", "shared/lease/settle.go", "return f.timeDecides(s.TTL, wait) && !f.pending(l.DrainUntil.Add(wait), f.span(s)+wait)", "return wait >= 0", rules},
		{"a cut drains what the store still has", "shared/lease/forget.go", "ch = ch.merge(f.evict(p, now, l, HistoryWasCut, why))", "_, _ = now, l", rules},
		{"a cut closes reconciling scopes", "shared/lease/forget.go", "if p.OnUncleanEnd == FreeAfter || c.Scope.Epoch == 0 || c.Scope.Forgotten {", "if true {", rules},
		{"one epoch for two nodes is a contradiction", "shared/lease/forget.go", "if l.Epoch == w.Epoch && l.Node != w.Node {", "if false {", rules},
		{"a forgotten grant is remembered (FC-108)", "shared/lease/forget.go", "if w.Epoch <= c.Scope.Epoch {", "if true {", rules},
		{"a late claim is not owned (FC-92)", "sidecar/ownership/table.go", "if !e.Now.Before(m.Term.UncertainAt) {\n\t\treturn m, nil // too late", "if false {\n\t\treturn m, nil // too late", ownership},
		{"the hard deadline is final (FC-26)", "sidecar/ownership/table.go", "if m.Term.Deadline != 0 && !e.Now.Before(m.Term.Deadline) {\n\t\treturn tick", "if false {\n\t\treturn tick", ownership},
		{"an answer from before a clock event proves nothing (DESIGN 4.5)", "sidecar/ownership/table.go", "if e.SentAt.Before(m.notice) || !m.Claimed {", "if !m.Claimed {", ownership},
		{"durations count from the sending (DESIGN 4.4)", "sidecar/ownership/machine.go", "hard := sentAt.Add(remaining - m.Timing.Margin)", "hard := sentAt.Add(remaining)", ownership},
		{"loss cuts what is in flight", "sidecar/ownership/table.go", "m.Term.State, m.Term.Reason = Lost, Expired\n\t\treturn m, []Action{DoPublish, DoCut, DoRetire}", "m.Term.State, m.Term.Reason = Lost, Expired\n\t\treturn m, []Action{DoPublish, DoRetire}", ownership},
		{"Uncertain admits no new effect (I4)", "sidecar/gate/gate.go", "if t.State == ownership.Uncertain || !now.Before(t.UncertainAt) {", "if false {", gate},
		{"the deadline counts although the View says Owned (I4)", "sidecar/gate/gate.go", "if !now.Before(t.Deadline) {\n\t\t\treturn lost(t)", "if false {\n\t\t\treturn lost(t)", gate},
		{"Releasing admits nothing (FC-103)", "sidecar/gate/gate.go", "ownership.Reconciling, ownership.Releasing:\n\t\treturn notOwned(t)", "ownership.Reconciling:\n\t\treturn notOwned(t)\n\tcase ownership.Releasing:\n\t\treturn nil", gate},
		{"search: a heartbeat ahead of the applied set extends nothing (FC-91)", "sidecar/ownership/tracker.go", "return !t.Applied.Before(answer)", "return answer != lease.SetVersion{}", model + "FC91"},
		{"only the next version is a delta (FC-91)", "sidecar/ownership/tracker.go", "case t.Applied.Next(v):", "case t.Applied != v:", ownership},
		{"search: what left the set is lost (FC-90)", "sidecar/ownership/table.go", "m.Term.State, m.Term.Reason, m.Term.Detail, m.Term.Successor = Lost, e.Reason, e.Detail, e.Successor\n\treturn m, []Action{DoPublish, DoCut, DoRetire}", "return m, nil", model + "FC90"},
		{"search: no duration counts for more than was given (DESIGN 4.4)", "sidecar/ownership/machine.go", "if remaining > m.Timing.TTL {", "if true {", model + "FC22"},
		{"search: a release closes the gate first", "sidecar/ownership/table.go", "m.Term.State, m.Term.Reason, m.Term.Detail = Releasing, usual, e.Detail", "m.Term.Reason, m.Term.Detail = usual, e.Detail", model + "FC10"},
		{"search: a call that runs ends at the hard deadline (DESIGN 4.7)", "sidecar/gate/gate.go", "if t.State == ownership.Lost || (t.Deadline != 0 && !p.gate.clock.Boot().Before(t.Deadline)) {", "if t.State == ownership.Lost {", model + "FC22"},
		{"search: a held scope is busy", "shared/lease/acquire.go", "case len(c.Leases) > 0:\n\t\treturn f.busy", "case false:\n\t\treturn f.busy", model + "FC90"},
		{"search: a drain waits for the holder's silence (FC-90)", "shared/lease/settle.go", "return f.timeDecides(s.TTL, wait) && !f.pending(l.DrainUntil.Add(wait), f.span(s)+wait)", "return wait >= 0", model + "FC90"},
		{"search: a time pause lets no time decide (FC-101)", "shared/lease/facts.go", "return f.pauseLeft(ttl, lockDelay) == 0", "return true", model + "FC101"},
		{"search: after a restored dump nobody is granted at once (FC-98)", "shared/lease/acquire.go", "if !f.Pause.Whole || left == 0 {", "if true {", model + "FC98"},
		{"search: an unclean end closes the scope (I6)", "shared/lease/settle.go", "l.Unsettled = !how.clean && p.OnUncleanEnd != FreeAfter", "l.Unsettled = false", model + "I6"},
		{"search: a copied directory resumes nothing (FC-99)", "shared/lease/session.go", "r.LockFile != LockFile{} && r.LockFile == s.LockFile", "true", model + "FC99"},
	}
}
