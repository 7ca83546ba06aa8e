package feed

import (
	"encoding/json"
	"fmt"

	"github.com/forgeyard/concurrency/authority/fold"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
)

// mostSessions of one text: a notice of Postgres has at most 8000 bytes, and a
// node's name at most 63 characters.
const mostSessions = 40

// line is one session in a text. Replicas of the version before and after must
// understand it: fields are only added.
type line struct {
	Session    string           `json:"s"`
	Node       string           `json:"n"`
	Generation epoch.Generation `json:"g"`
	Version    uint64           `json:"v"`
}

func encode(moved map[string]fold.Moved) []string {
	var texts []string
	lines := make([]line, 0, mostSessions)
	flush := func() {
		text, err := json.Marshal(lines)
		if err != nil {
			return // texts and numbers can always be said
		}
		texts, lines = append(texts, string(text)), lines[:0]
	}
	for _, m := range moved {
		lines = append(lines, line{m.Session, m.Node, m.Version.Generation, m.Version.Version})
		if len(lines) == mostSessions {
			flush()
		}
	}
	if len(lines) > 0 {
		flush()
	}
	return texts
}

func decode(text string) ([]fold.Moved, error) {
	var lines []line
	if err := json.Unmarshal([]byte(text), &lines); err != nil {
		return nil, fmt.Errorf("decode notice: %w", err)
	}
	moved := make([]fold.Moved, len(lines))
	for i, l := range lines {
		moved[i] = fold.Moved{Session: l.Session, Node: l.Node, Version: lease.SetVersion{Generation: l.Generation, Version: l.Version}}
	}
	return moved, nil
}
