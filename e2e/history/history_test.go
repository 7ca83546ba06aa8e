package history_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/e2e/history"
)

const scope = "acme/environment:prod"

func grant(epoch uint64, called, returned int) history.Grant {
	return history.Grant{Scope: scope, Node: "n", Lease: "l", Epoch: epoch, Called: ms(called), Returned: ms(returned)}
}

func write(token uint64, guarded, accepted bool, arrived, last int) history.Write {
	return history.Write{Scope: scope, Token: token, Guarded: guarded, Accepted: accepted, Arrived: ms(arrived), LastByte: ms(last)}
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// Each of these histories must be told apart by at least one judge, or, where
// it is good, by none.
func TestJudgesTellGoodHistoriesFromBadOnes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		grants []history.Grant
		writes []history.Write
		rules  []string // empty: good
	}{
		{"nothing", nil, nil, nil},
		{"one after the other",
			[]history.Grant{grant(5, 0, 10), grant(6, 20, 40)},
			[]history.Write{write(5, true, true, 12, 14), write(6, true, true, 45, 46), write(6, false, true, 47, 48)}, nil},
		{"the grant's answer comes after the first write", []history.Grant{grant(5, 0, 30)}, []history.Write{write(5, false, true, 12, 14)}, nil},
		{"a write under a grant that no client saw", nil, []history.Write{write(5, false, true, 12, 14)}, nil},
		{"a late stale write is refused", []history.Grant{grant(5, 0, 10), grant(6, 20, 40)},
			[]history.Write{write(6, true, true, 41, 42), write(5, true, false, 15, 50)}, []string{"I5"}},
		{"one epoch twice", []history.Grant{grant(5, 0, 10), grant(5, 20, 30)}, nil, []string{"I2", "linearizability"}},
		{"an epoch falls", []history.Grant{grant(6, 0, 10), grant(5, 20, 30)}, nil, []string{"I2", "linearizability"}},
		{"a guard accepts a lower token", []history.Grant{grant(5, 0, 10), grant(6, 11, 12)},
			[]history.Write{write(6, true, true, 20, 21), write(5, true, true, 30, 31)}, []string{"I3", "I5", "linearizability"}},
		{"a guard refuses what it must accept", []history.Grant{grant(5, 0, 10)}, []history.Write{write(5, true, false, 20, 21)}, []string{"linearizability"}},
		{"two holders at once write to an unguarded provider", []history.Grant{grant(5, 0, 10), grant(6, 20, 30)},
			[]history.Write{write(6, false, true, 32, 33), write(5, false, true, 35, 36)}, []string{"I5", "linearizability"}},
		{"the last byte comes after the next grant", []history.Grant{grant(5, 0, 10), grant(6, 20, 30)},
			[]history.Write{write(5, false, true, 12, 31)}, []string{"I5"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			violations, undecided := history.Linearizable(tc.grants, tc.writes, time.Minute)
			require.Empty(t, undecided)
			got := map[string]bool{}
			for _, v := range append(history.Audit(tc.grants, tc.writes), violations...) {
				got[v.Rule] = true
			}
			want := map[string]bool{}
			for _, r := range tc.rules {
				want[r] = true
			}
			require.Equal(t, want, got)
		})
	}
}

func TestHistoryKeepsTheOrderOfTime(t *testing.T) {
	t.Parallel()
	h := history.New(time.Now())
	h.Granted(grant(6, 20, 30))
	h.Granted(grant(5, 0, 10))
	h.Wrote(write(6, true, true, 40, 41))
	h.Wrote(write(5, true, true, 12, 13))
	require.Equal(t, uint64(5), h.Grants()[0].Epoch)
	require.Equal(t, uint64(5), h.Writes()[0].Token)
}
