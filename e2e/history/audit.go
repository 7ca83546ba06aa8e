package history

import (
	"fmt"
	"time"
)

// Audit lists every violation that two operations prove between them.
func Audit(grants []Grant, writes []Write) []Violation {
	var out []Violation
	out = append(out, auditEpochs(grants)...)
	out = append(out, auditTokens(writes)...)
	return append(out, auditSilence(grants, writes)...)
}

// auditEpochs: no epoch twice, and a grant that was asked for after another
// had returned has the higher one (I2).
func auditEpochs(grants []Grant) []Violation {
	var out []Violation
	seen := map[string]map[uint64]Grant{}
	newest := map[string]Grant{}
	for _, g := range grants {
		if seen[g.Scope] == nil {
			seen[g.Scope] = map[uint64]Grant{}
		}
		if other, twice := seen[g.Scope][g.Epoch]; twice {
			out = append(out, Violation{"I2", g.Scope, fmt.Sprintf("epoch %d was given to %s and to %s", g.Epoch, other.Lease, g.Lease)})
		}
		seen[g.Scope][g.Epoch] = g
		if before := newest[g.Scope]; g.Called > before.Returned && g.Epoch < before.Epoch {
			out = append(out, Violation{"I2", g.Scope, fmt.Sprintf("epoch %d at %s came after %d at %s", g.Epoch, g.Called, before.Epoch, before.Returned)})
		}
		if g.Epoch > newest[g.Scope].Epoch {
			newest[g.Scope] = g
		}
	}
	return out
}

// auditTokens: no guarded provider accepts a token below one that it has seen
// (I3).
func auditTokens(writes []Write) []Violation {
	var out []Violation
	highest := map[string]uint64{}
	for _, w := range writes {
		if !w.Guarded {
			continue
		}
		if w.Accepted && w.Token < highest[w.Scope] {
			out = append(out, Violation{"I3", w.Scope, fmt.Sprintf("token %d at %s was accepted after %d", w.Token, w.Arrived, highest[w.Scope])})
		}
		if w.Accepted {
			highest[w.Scope] = max(highest[w.Scope], w.Token)
		}
	}
	return out
}

// auditSilence: the last byte of an older holder comes before the next grant
// has returned (I5).
func auditSilence(grants []Grant, writes []Write) []Violation {
	var out []Violation
	for _, w := range writes {
		for _, g := range grants {
			if g.Scope == w.Scope && g.Epoch > w.Token && w.LastByte > g.Returned {
				out = append(out, Violation{"I5", w.Scope, fmt.Sprintf(
					"a byte with token %d (lease %s) came at %s, %s after epoch %d was granted to %s",
					w.Token, w.Lease, w.LastByte, (w.LastByte - g.Returned).Round(time.Millisecond), g.Epoch, g.Node)})
				break
			}
		}
	}
	return out
}
