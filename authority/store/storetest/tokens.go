package storetest

import (
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/authority/store"
)

func tokenCases() []Case {
	return []Case{
		{"join token/spent as often as allowed, by many at once", tokenSpent},
		{"join token/unknown or expired is refused", tokenRefused},
	}
}

func tokenSpent(t *testing.T, b *Bench) {
	hash := sha256.Sum256([]byte("secret"))
	require.NoError(t, b.Store.PutJoinToken(t.Context(), store.JoinToken{
		Hash: hash, Tenants: []string{"acme", "beta"}, UsesLeft: 3, ExpiresAt: b.Start.Now.Add(time.Hour),
	}))
	stores := []store.Store{b.Store, b.DB.Open(t)}
	var spent, refused atomic.Int64
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			got, err := stores[i%2].SpendJoinToken(context.Background(), hash)
			if err != nil {
				refused.Add(1)
				return
			}
			spent.Add(1)
			if len(got.Tenants) != 2 {
				t.Errorf("tenants %v", got.Tenants)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 3, spent.Load())
	require.EqualValues(t, 7, refused.Load())
}

func tokenRefused(t *testing.T, b *Bench) {
	hash := sha256.Sum256([]byte("old"))
	require.NoError(t, b.Store.PutJoinToken(t.Context(), store.JoinToken{
		Hash: hash, Tenants: []string{"acme"}, UsesLeft: 3, ExpiresAt: b.Start.Now.Add(-time.Second),
	}))
	_, err := b.Store.SpendJoinToken(t.Context(), hash)
	require.ErrorIs(t, err, store.ErrTokenRefused)
	_, err = b.Store.SpendJoinToken(t.Context(), sha256.Sum256([]byte("never made")))
	require.ErrorIs(t, err, store.ErrTokenRefused)
}
