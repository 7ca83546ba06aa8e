package ownership

// rule is one cell of the transition table.
type rule func(Machine, Event) (Machine, []Action)

// table says what each event does in each state. An event that a state does
// not list changes nothing there: late and repeated events are ordinary.
func table() map[State]map[EventKind]rule {
	return map[State]map[EventKind]rule{
		Unowned: {},
		Acquiring: {
			EvGranted: granted, EvConfirmed: claimed, EvBusy: busy, EvUndecided: undecided, EvRefused: refused,
			EvDropped: droppedUnclaimed, EvRelease: giveBack, EvCallerGone: giveBack, EvClock: noticed,
		},
		Waiting: {
			EvRetry: retry, EvRefused: refused, EvRelease: giveBack, EvCallerGone: giveBack,
			EvGranted: granted, EvUndecided: undecided, EvClock: noticed,
		},
		Owned: {
			EvConfirmed: confirmed, EvTick: tick, EvClock: clockEvent, EvDropped: dropped,
			EvSettle: settle, EvRelease: release, EvCallerGone: callerGone,
		},
		Uncertain: {
			EvConfirmed: confirmed, EvTick: tick, EvClock: clockEvent, EvDropped: dropped,
			EvSettle: settle, EvRelease: release, EvCallerGone: callerGone,
		},
		Reconciling: {},
		Releasing: {
			EvConfirmed: confirmedReleasing, EvTick: tickReleasing, EvReleased: released,
			EvDropped: droppedReleasing, EvCallerGone: callerGoneReleasing,
		},
		Lost: {EvReleased: forgotten},
	}
}

// Step is the transition function. The table is built once for each call: it
// is small, and a package without mutable state is worth the microsecond.
func Step(m Machine, e Event) (Machine, []Action) {
	f, ok := table()[m.Term.State][e.Kind]
	if !ok {
		return m, nil
	}
	return f(m, e)
}

func granted(m Machine, e Event) (Machine, []Action) {
	if m.Term.Lease == e.Lease && m.Term.Epoch == e.Epoch {
		return m, nil // the same grant, told twice
	}
	m.Term.State = Acquiring
	m.Term.Lease, m.Term.Epoch, m.Term.Confirm = e.Lease, e.Epoch, e.Confirm
	return m, []Action{DoClaim}
}

// claimed is the only way into Owned: a grant is Owned after its claim was
// acknowledged (DESIGN 3, Session 6).
func claimed(m Machine, e Event) (Machine, []Action) {
	if m.Term.Lease == "" || e.SentAt.Before(m.notice) {
		return m, nil
	}
	m.Claimed = true
	m = m.confirm(e.SentAt, e.Remaining)
	if !e.Now.Before(m.Term.UncertainAt) {
		return m, nil // too late to be of use; the next heartbeat may confirm more
	}
	m.Term.State, m.Term.Reason, m.Term.Detail, m.Term.Successor = Owned, NoReason, "", nil
	return m, []Action{DoPublish}
}

func busy(m Machine, e Event) (Machine, []Action) {
	m.Term.State, m.Term.Successor, m.Term.Detail = Waiting, e.Successor, e.Detail
	return m, []Action{DoPublish}
}

// undecided forgets a grant that is over, or that the answer did not tell of.
func undecided(m Machine, _ Event) (Machine, []Action) {
	m.Term.State, m.Term.Lease, m.Term.Epoch = Waiting, "", 0
	m.Claimed = false
	return m, []Action{DoPublish}
}

func retry(m Machine, _ Event) (Machine, []Action) {
	m.Term.State = Acquiring
	return m, []Action{DoAcquire, DoPublish}
}

func refused(m Machine, e Event) (Machine, []Action) {
	m.Term.State, m.Term.Reason, m.Term.Detail = Unowned, e.Reason, e.Detail
	if e.Successor != nil {
		m.Term.Successor = e.Successor
	}
	return m, []Action{DoPublish, DoForget}
}

// droppedUnclaimed: the claim came too late; nothing ran under it.
func droppedUnclaimed(m Machine, e Event) (Machine, []Action) {
	if m.Term.Lease == "" {
		return m, nil
	}
	e.Reason = Expired
	return refused(m, e)
}

// giveBack ends a request. When it may have been granted the release finds the
// lease by its id, which the sidecar chose.
func giveBack(m Machine, e Event) (Machine, []Action) {
	m.CallerLeft = e.Kind == EvCallerGone
	if m.CallerLeft {
		m = m.releasing(e, CallerGone)
	} else {
		m = m.releasing(e, ReleasedByCaller)
	}
	return m, []Action{DoPublish, DoRetire}
}

// releasing enters that state for the event's reason, or the usual one.
func (m Machine) releasing(e Event, usual Reason) Machine {
	m.Term.State, m.Term.Reason, m.Term.Detail = Releasing, usual, e.Detail
	if e.Reason != NoReason {
		m.Term.Reason = e.Reason
	}
	return m
}

// noticed: an answer that was on its way during a clock event proves nothing.
func noticed(m Machine, e Event) (Machine, []Action) {
	m.notice = e.Now
	return m, nil
}

func confirmed(m Machine, e Event) (Machine, []Action) {
	if e.SentAt.Before(m.notice) || !m.Claimed {
		return m, nil
	}
	if m.Term.Deadline != 0 && !e.Now.Before(m.Term.Deadline) {
		return tick(m, Event{Kind: EvTick, Now: e.Now}) // final, whatever comes late
	}
	before := m.Term.Deadline
	m = m.confirm(e.SentAt, e.Remaining)
	if e.Now.Before(m.Term.UncertainAt) && m.Term.State == Uncertain {
		m.Term.State, m.Term.Reason, m.Term.Detail = Owned, NoReason, ""
		return m, []Action{DoPublish}
	}
	if m.Term.Deadline == before {
		return m, nil
	}
	return m, []Action{DoPublish}
}

func tick(m Machine, e Event) (Machine, []Action) {
	switch {
	case !e.Now.Before(m.Term.Deadline):
		if m.Term.Reason == NoReason || m.Term.Reason == AuthorityUnreachable {
			m.Term.Detail = "not confirmed by the authority before the hard deadline"
		}
		m.Term.State, m.Term.Reason = Lost, Expired
		return m, []Action{DoPublish, DoCut, DoRetire}
	case m.Term.State == Owned && !e.Now.Before(m.Term.UncertainAt):
		m.Term.State, m.Term.Reason = Uncertain, AuthorityUnreachable
		m.Term.Detail = "not confirmed by the authority in time"
		return m, []Action{DoPublish}
	}
	return m, nil
}

// clockEvent distrusts everything that was confirmed before it (DESIGN 4.5).
func clockEvent(m Machine, e Event) (Machine, []Action) {
	m.notice = e.Now
	m.Term.State, m.Term.Reason, m.Term.Detail = Uncertain, ClockEvent, e.Detail
	if !e.Now.Before(m.Term.Deadline) {
		return tick(m, e)
	}
	return m, []Action{DoPublish}
}

func dropped(m Machine, e Event) (Machine, []Action) {
	m.Term.State, m.Term.Reason, m.Term.Detail, m.Term.Successor = Lost, e.Reason, e.Detail, e.Successor
	return m, []Action{DoPublish, DoCut, DoRetire}
}

// settle keeps the scope and closes the gate, for good.
func settle(m Machine, _ Event) (Machine, []Action) {
	m.Term.Settling = true
	return m, []Action{DoPublish}
}

func release(m Machine, e Event) (Machine, []Action) {
	m = m.releasing(e, ReleasedByCaller)
	return m, []Action{DoPublish, DoRetire}
}

// callerGone is an unclean end, acted on at once (DESIGN 6.9; FC-12).
func callerGone(m Machine, e Event) (Machine, []Action) {
	m.CallerLeft = true
	m = m.releasing(e, CallerGone)
	return m, []Action{DoPublish, DoCut, DoRetire}
}

func callerGoneReleasing(m Machine, _ Event) (Machine, []Action) {
	if m.CallerLeft {
		return m, nil
	}
	m.CallerLeft = true
	return m, []Action{DoCut}
}

// confirmedReleasing gives what still runs the time to settle; the keeper
// bounds it. Nothing new starts, and the state stays.
func confirmedReleasing(m Machine, e Event) (Machine, []Action) {
	if !m.Claimed || m.cut || e.SentAt.Before(m.notice) || !e.Now.Before(m.Term.Deadline) {
		return m, nil
	}
	return m.confirm(e.SentAt, e.Remaining), []Action{DoPublish}
}

// tickReleasing: what has not settled by the hard deadline is cut. The state
// stays Releasing; the release itself is still owed. The deadline stays too:
// a call that is about to write looks at it.
func tickReleasing(m Machine, e Event) (Machine, []Action) {
	if m.cut || m.Term.Deadline == 0 || e.Now.Before(m.Term.Deadline) {
		return m, nil
	}
	m.cut = true
	return m, []Action{DoCut}
}

// droppedReleasing: the authority ended the lease first.
func droppedReleasing(m Machine, e Event) (Machine, []Action) {
	m.Term.Successor = e.Successor
	return m, []Action{DoCut}
}

func released(m Machine, _ Event) (Machine, []Action) {
	m.Term.State = Unowned
	return m, []Action{DoPublish, DoForget}
}

func forgotten(m Machine, _ Event) (Machine, []Action) { return m, []Action{DoForget} }
