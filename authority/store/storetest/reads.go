package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

func readCases() []Case {
	return []Case{
		{"read/leases by tenant, scope, node, newest first", readLeases},
		{"read/audit lines of a scope, newest first", readAudit},
		{"read/a scope with its holder and session", readScope},
	}
}

func readLeases(t *testing.T, b *Bench) {
	one, two := b.open(t, "n1", MaxTTL), b.open(t, "n2", MaxTTL)
	foreign, err := scope.New("acme-2", scope.Device, "d_1")
	require.NoError(t, err)
	first, second, third := b.hold(t, named(t, "a"), one), b.hold(t, named(t, "b"), two), b.hold(t, foreign, two)
	for name, tc := range map[string]struct {
		filter store.LeaseFilter
		want   []lease.Lease
	}{
		"all":      {store.LeaseFilter{}, []lease.Lease{third, second, first}},
		"tenant":   {store.LeaseFilter{Tenant: "acme"}, []lease.Lease{second, first}},
		"no other": {store.LeaseFilter{Tenant: "acm"}, nil},
		"scope":    {store.LeaseFilter{Scope: foreign}, []lease.Lease{third}},
		"node":     {store.LeaseFilter{Node: "n2"}, []lease.Lease{third, second}},
		"limit":    {store.LeaseFilter{Limit: 1}, []lease.Lease{third}},
	} {
		got, err := b.Store.Leases(t.Context(), tc.filter)
		require.NoError(t, err, name)
		require.Len(t, got, len(tc.want), name)
		for i := range got {
			require.Equal(t, tc.want[i], got[i], name)
		}
	}
}

func readAudit(t *testing.T, b *Bench) {
	sc := named(t, "audited")
	at := b.Start.Now.Truncate(time.Microsecond)
	lines := []lease.Audit{
		{At: at, Actor: "ann", Action: "force-release", Scope: sc.String(), Lease: "L1", Node: "n1", Epoch: 7, Reason: "stuck"},
		{At: at.Add(time.Second), Actor: "authority", Action: "lease-expired", Scope: sc.String(), Lease: "L2", Node: "n2", Epoch: 8},
	}
	require.NoError(t, b.Store.Transact(t.Context(), store.Batch{}, func(store.Loaded) (store.Changes, error) {
		return store.Changes{Audit: append(lines, lease.Audit{At: at, Scope: "acme/environment:other"})}, nil
	}))
	got, err := b.Store.Audit(t.Context(), sc, 10)
	require.NoError(t, err)
	require.Equal(t, []lease.Audit{lines[1], lines[0]}, got)
	got, err = b.Store.Audit(t.Context(), sc, 1)
	require.NoError(t, err)
	require.Equal(t, lines[1:], got)
}

func readScope(t *testing.T, b *Bench) {
	sc := named(t, "seen")
	s := b.open(t, "n1", MaxTTL)
	l := b.hold(t, sc, s)
	v, err := b.Store.Scope(t.Context(), sc)
	require.NoError(t, err)
	require.Equal(t, []lease.Lease{l}, v.Leases)
	require.Equal(t, l.Epoch, v.Record.Epoch)
	require.Equal(t, "n1", v.Sessions[s.ID].Node)
}
