package storetest

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

func nodeCases() []Case {
	return []Case{
		{"node/what it came with comes back, its state stays", nodeSeen},
		{"node/a decision and its audit line, once", nodeChanged},
		{"node/an enrolment admits a removed node from that certificate on, and no revoked one", nodeEnrolled},
		{"node/a removed node that is admitted again needs another certificate", nodeReadmitted},
		{"join token/listed without its secret and dropped", tokenListed},
		{"join token/pruned when it has expired for long", tokenPruned},
		{"audit/a line of its own", auditRecorded},
	}
}

// certificate is one that was issued at minute n of the case.
func (b *Bench) certificate(issuer string, n int) store.Certificate {
	at := b.Start.Now.Truncate(time.Second).Add(time.Duration(n) * time.Minute)
	return store.Certificate{Issuer: issuer, IssuedAt: at, ExpiresAt: at.Add(time.Hour)}
}

func nodeSeen(t *testing.T, b *Bench) {
	n, err := b.Store.Node(t.Context(), "n1")
	require.NoError(t, err)
	require.Empty(t, n, "never seen")
	first, err := b.Store.SeeNode(t.Context(), store.Visit{Node: "n1", Tenants: []string{"acme"}, Certificate: b.certificate("old", 0), Via: "first"})
	require.NoError(t, err)
	require.Equal(t, store.NodeAdmitted, first.State)
	require.Equal(t, "first", first.Via)
	require.False(t, first.SeenAt.Before(b.Start.Now))
	require.NoError(t, b.Store.ChangeNode(t.Context(), store.NodeChange{Name: "n1", From: store.NodeAdmitted, To: store.NodeRevoked, By: "person:sre", Reason: "stolen"}))
	other := b.DB.Open(t)
	n, err = other.SeeNode(t.Context(), store.Visit{Node: "n1", Tenants: []string{"acme", "beta"}, Certificate: b.certificate("new", 1)})
	require.NoError(t, err)
	require.Equal(t, "first", n.Via, "a visit to no replica leaves what is known")
	n, err = b.Store.SeeNode(t.Context(), store.Visit{Node: "n1", Tenants: []string{"acme", "beta"}, Certificate: b.certificate("new", 1), Via: "second"})
	require.NoError(t, err)
	require.Equal(t, "second", n.Via)
	require.Equal(t, store.NodeRevoked, n.State)
	require.Equal(t, "stolen", n.Reason)
	require.Equal(t, "person:sre", n.ChangedBy)
	require.False(t, n.ChangedAt.Before(b.Start.Now))
	require.Equal(t, []string{"acme", "beta"}, n.Tenants)
	require.Equal(t, b.certificate("new", 1), n.Certificate)
	require.Zero(t, n.AdmitFrom)
	again, err := b.Store.Node(t.Context(), "n1")
	require.NoError(t, err)
	require.Equal(t, n, again)
	_, err = b.Store.SeeNode(t.Context(), store.Visit{Node: "n0", Tenants: []string{"acme"}, Certificate: b.certificate("new", 1)})
	require.NoError(t, err)
	all, err := other.Nodes(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "n0", all[0].Name)
	require.Equal(t, n, all[1])
}

func nodeChanged(t *testing.T, b *Bench) {
	change := store.NodeChange{Name: "n1", To: store.NodeRevoked, By: "person:sre", Reason: "stolen"}
	require.NoError(t, b.Store.ChangeNode(t.Context(), change), "a node that never came")
	require.ErrorIs(t, b.Store.ChangeNode(t.Context(), change), store.ErrConflict)
	refused, err := b.DB.Open(t).Refused(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"n1"}, refused)
	change.From, change.To = store.NodeAdmitted, store.NodeRemoved
	require.ErrorIs(t, b.Store.ChangeNode(t.Context(), change), store.ErrConflict)
	change.From, change.To, change.Reason = store.NodeRevoked, store.NodeAdmitted, "found again"
	require.NoError(t, b.Store.ChangeNode(t.Context(), change))
	n, err := b.Store.Node(t.Context(), "n1")
	require.NoError(t, err)
	require.Equal(t, store.NodeAdmitted, n.State)
	refused, err = b.Store.Refused(t.Context())
	require.NoError(t, err)
	require.Empty(t, refused)
	lines, err := b.Store.Audit(t.Context(), scope.Scope{}, 10)
	require.NoError(t, err)
	require.Len(t, lines, 2, "what did not happen is not recorded")
	require.Equal(t, "node-admitted", lines[0].Action)
	require.Equal(t, "node-revoked", lines[1].Action)
	require.Equal(t, "n1", lines[1].Node)
	require.Equal(t, "stolen", lines[1].Reason)
}

func nodeEnrolled(t *testing.T, b *Bench) {
	for _, state := range []store.NodeState{store.NodeRemoved, store.NodeRevoked} {
		name := "n-" + string(state)
		_, err := b.Store.SeeNode(t.Context(), store.Visit{Node: name, Tenants: []string{"acme"}, Certificate: b.certificate("ca", 0), Enrolled: true})
		require.NoError(t, err)
		require.NoError(t, b.Store.ChangeNode(t.Context(), store.NodeChange{Name: name, From: store.NodeAdmitted, To: state, By: "p", Reason: "r"}))
		n, err := b.Store.SeeNode(t.Context(), store.Visit{Node: name, Tenants: []string{"acme"}, Certificate: b.certificate("ca", 1)})
		require.NoError(t, err)
		require.Equal(t, state, n.State, "coming is not enrolling")
		n, err = b.Store.SeeNode(t.Context(), store.Visit{Node: name, Tenants: []string{"acme"}, Certificate: b.certificate("ca", 2), Enrolled: true})
		require.NoError(t, err)
		if state == store.NodeRevoked {
			require.Equal(t, state, n.State)
			continue
		}
		require.Equal(t, store.NodeAdmitted, n.State)
		require.Equal(t, b.certificate("ca", 2).IssuedAt, n.AdmitFrom)
	}
}

func nodeReadmitted(t *testing.T, b *Bench) {
	old := b.certificate("ca", -10)
	_, err := b.Store.SeeNode(t.Context(), store.Visit{Node: "n1", Tenants: []string{"acme"}, Certificate: old})
	require.NoError(t, err)
	for _, to := range []store.NodeState{store.NodeRevoked, store.NodeAdmitted} {
		n, err := b.Store.Node(t.Context(), "n1")
		require.NoError(t, err)
		require.NoError(t, b.Store.ChangeNode(t.Context(), store.NodeChange{Name: "n1", From: n.State, To: to, By: "p", Reason: "r"}))
	}
	n, err := b.Store.Node(t.Context(), "n1")
	require.NoError(t, err)
	require.Empty(t, n.Refuses(old), "a restored node keeps its certificate")
	for _, to := range []store.NodeState{store.NodeRemoved, store.NodeAdmitted} {
		require.NoError(t, b.Store.ChangeNode(t.Context(), store.NodeChange{Name: "n1", From: n.State, To: to, By: "p", Reason: "r"}))
		if n, err = b.Store.Node(t.Context(), "n1"); to == store.NodeRemoved {
			require.NotEmpty(t, n.Refuses(b.certificate("ca", 10)))
		}
		require.NoError(t, err)
	}
	require.NotEmpty(t, n.Refuses(old), "a removed one does not")
	require.Empty(t, n.Refuses(b.certificate("ca", 10)))
}

func tokenListed(t *testing.T, b *Bench) {
	hash := sha256.Sum256([]byte("secret"))
	put := store.JoinToken{Hash: hash, Tenants: []string{"acme"}, UsesLeft: 3, ExpiresAt: b.Start.Now.Add(time.Hour), MadeBy: "person:sre"}
	require.NoError(t, b.Store.PutJoinToken(t.Context(), put))
	spent, err := b.Store.SpendJoinToken(t.Context(), hash)
	require.NoError(t, err)
	require.Equal(t, 2, spent.UsesLeft)
	require.Equal(t, 3, spent.Uses)
	all, err := b.DB.Open(t).JoinTokens(t.Context())
	require.NoError(t, err)
	require.Equal(t, []store.JoinToken{spent}, all)
	require.Equal(t, "person:sre", spent.MadeBy)
	require.False(t, spent.MadeAt.Before(b.Start.Now))
	require.Len(t, spent.Fingerprint(), 16)
	require.NoError(t, b.Store.DropJoinToken(t.Context(), hash))
	require.ErrorIs(t, b.Store.DropJoinToken(t.Context(), hash), store.ErrTokenRefused)
	_, err = b.Store.SpendJoinToken(t.Context(), hash)
	require.ErrorIs(t, err, store.ErrTokenRefused)
}

func tokenPruned(t *testing.T, b *Bench) {
	for name, ago := range map[string]time.Duration{"old": 3 * time.Hour, "lately": time.Minute} {
		require.NoError(t, b.Store.PutJoinToken(t.Context(), store.JoinToken{
			Hash: sha256.Sum256([]byte(name)), Tenants: []string{name}, UsesLeft: 1, ExpiresAt: b.Start.Now.Add(-ago),
		}))
	}
	require.NoError(t, b.Store.Prune(t.Context(), store.Retention{Commands: time.Hour, Ended: 2 * time.Hour, Audit: 3 * time.Hour}, 100))
	all, err := b.Store.JoinTokens(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, []string{"lately"}, all[0].Tenants)
}

func auditRecorded(t *testing.T, b *Bench) {
	require.NoError(t, b.Store.Record(t.Context(), lease.Audit{Actor: "token:abc", Action: "node-enrolled", Node: "n1", Reason: "acme"}))
	lines, err := b.Store.Audit(t.Context(), scope.Scope{}, 10)
	require.NoError(t, err)
	require.Len(t, lines, 1)
	require.False(t, lines[0].At.Before(b.Start.Now))
	lines[0].At = time.Time{}
	require.Equal(t, lease.Audit{Actor: "token:abc", Action: "node-enrolled", Node: "n1", Reason: "acme"}, lines[0])
}
