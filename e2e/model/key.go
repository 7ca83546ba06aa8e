package model

import (
	"encoding/binary"
	"slices"
)

// key is an encoding of everything that can influence what happens next, and
// of nothing else: messages are a bag, records are ordered by their ids.
func (s *state) key() []byte {
	b := make([]byte, 0, 512)
	b = ints(b, s.left.Ticks, s.left.Asks, s.left.Duplicates, s.left.Forces, s.left.Steps, s.left.Restarts, s.left.Raises, s.left.Sleeps, s.left.Cuts)
	b = ints(b, int(s.world.Now))
	b = s.world.Auth.key(b)
	for _, n := range s.world.Nodes {
		b = n.key(b)
	}
	again := s.left.Duplicates > 0 || s.world.cfg.repeats // else no command comes twice
	if again {
		for _, c := range s.world.Auth.Stored {
			b = ints(b, c.Command)
		}
	}
	bag := make([]string, 0, len(s.world.Net))
	for _, m := range s.world.Net {
		if !again {
			m.Command = 0
		}
		bag = append(bag, string(m.key(nil)))
	}
	slices.Sort(bag)
	return texts(b, bag...)
}

func (a Authority) key(b []byte) []byte {
	b = ints(b, int(a.Case.Scope.Epoch), int(a.Generation), int(a.Step), int(a.PausedAt), a.Opened, flag(a.Whole), flag(a.Cut), flag(a.Dirty), len(a.Case.Unsettled), flag(a.Case.Scope.Forgotten))
	b = texts(b, string(a.Case.Scope.State))
	for _, l := range a.Case.Leases {
		b = texts(b, l.ID, string(l.State), string(l.EndReason))
		b = ints(b, int(l.ClaimBy.UnixNano()), int(l.DrainUntil.UnixNano()), int(l.DrainVersion.Version), int(l.DrainVersion.Generation))
	}
	ids := make([]string, 0, len(a.Case.Sessions))
	for id := range a.Case.Sessions {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		s := a.Case.Sessions[id]
		b = texts(b, id, s.Nonce, string(s.End))
		b = ints(b, int(s.ExpiresAt.UnixNano()), int(s.SetVersion), int(s.Applied.Version), int(s.Applied.Generation))
	}
	return b
}

func (n Node) key(b []byte) []byte {
	b = ints(b, n.Boot, n.Proc, n.Leases, int(n.Tracker.Applied.Generation), int(n.Tracker.Applied.Version), flag(n.Registered))
	b = texts(b, n.Session, n.LastNonce)
	for _, h := range n.Holds {
		t := h.M.Term
		b = texts(b, h.Asked, t.Lease, string(t.State))
		b = ints(b, flag(h.M.Claimed), flag(h.Acked), flag(h.Running), flag(h.Releasing), flag(h.Cut), int(t.Deadline), int(t.UncertainAt),
			int(h.Notice), int(h.GrantedAt.Generation), int(h.GrantedAt.Version))
	}
	return b
}

func (m Message) key(b []byte) []byte {
	b = texts(b, string(m.Kind), m.Session, m.Nonce, m.ResumeNonce, m.Lease, string(m.Code))
	b = ints(b, flag(m.Answer), m.Node, m.Boot, m.Proc, int(m.SentAt), m.Command, int(m.Epoch), int(m.Applied.Generation), int(m.Applied.Version),
		int(m.Version.Generation), int(m.Version.Version), int(m.Remaining))
	for _, e := range m.Set {
		b = texts(b, e.Lease, string(e.State))
	}
	return b
}

func flag(v bool) int {
	if v {
		return 1
	}
	return 0
}

func ints(b []byte, vs ...int) []byte {
	for _, v := range vs {
		b = binary.AppendVarint(b, int64(v))
	}
	return b
}

func texts(b []byte, vs ...string) []byte {
	for _, v := range vs {
		b = binary.AppendUvarint(b, uint64(len(v)))
		b = append(b, v...)
	}
	return b
}
