package cache_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/sidecar/cache"
)

func open(t *testing.T, dir string) (*cache.Cache, cache.Damage) {
	t.Helper()
	c, damage, err := cache.Open(cache.Config{Dir: dir, Now: time.Unix(1, 0)})
	require.NoError(t, err)
	return c, damage
}

func fill(t *testing.T, dir string) {
	t.Helper()
	c, damage := open(t, dir)
	require.Empty(t, damage.SetAside)
	sc, err := scope.Parse("acme/environment:prod")
	require.NoError(t, err)
	require.NoError(t, c.PutSession(cache.Session{ID: "S", Nonce: "n"}))
	require.NoError(t, c.PutHold(cache.Hold{Lease: "L", Scope: sc, Epoch: 7, Key: "k"}))
	require.NoError(t, c.PutReceipt(cache.Receipt{Scope: "acme/environment:prod", Epoch: 7, Seal: []byte("seven")}))
	require.NoError(t, c.PutReceipt(cache.Receipt{Scope: "acme/environment:prod", Epoch: 6, Seal: []byte("six")}))
	require.NoError(t, c.Close())
}

func TestCacheSurvivesAReopen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fill(t, dir)
	c, _ := open(t, dir)
	defer c.Close()
	s, ok, err := c.Session()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "S", s.ID)
	holds, err := c.Holds()
	require.NoError(t, err)
	require.Len(t, holds, 1)
	require.EqualValues(t, 7, holds[0].Epoch)
	require.NoError(t, c.Reset())
	holds, err = c.Holds()
	require.NoError(t, err)
	require.Empty(t, holds)
	receipts, err := c.Receipts()
	require.NoError(t, err)
	require.Len(t, receipts, 1, "a reset forgets no epoch")
	require.EqualValues(t, 7, receipts[0].Epoch, "the highest stays")
}

// TestFC56_DamagedFileIsSetAsideAndTheReceiptsAreKept damages the file in
// every way that a power loss or a bad disk can.
func TestFC56_DamagedFileIsSetAsideAndTheReceiptsAreKept(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func([]byte) []byte{
		"truncated":      func(b []byte) []byte { return b[:len(b)/3] },
		"one page left":  func(b []byte) []byte { return b[:4096] },
		"zeroed":         func(b []byte) []byte { return make([]byte, len(b)) },
		"garbage":        func(b []byte) []byte { return []byte("this is no database at all") },
		"scrambled data": func(b []byte) []byte { return scramble(b, 2*4096) },
		"scrambled meta": func(b []byte) []byte { return scramble(b, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			fill(t, dir)
			path := filepath.Join(dir, "cache.db")
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, damage(text), 0o600))
			c, report := open(t, dir)
			defer c.Close()
			require.NotEmpty(t, report.SetAside)
			require.Error(t, report.Cause)
			require.FileExists(t, report.SetAside)
			_, ok, err := c.Session()
			require.NoError(t, err)
			require.False(t, ok, "it starts with nothing")
			receipts, err := c.Receipts()
			require.NoError(t, err)
			require.Len(t, receipts, 1)
			require.EqualValues(t, 7, receipts[0].Epoch)
		})
	}
}

// TestFC56_AnyPageMayBeDamaged overwrites each page in turn: the file is set
// aside, or still good; the process lives and the receipts are there in any case.
func TestFC56_AnyPageMayBeDamaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fill(t, dir)
	good, err := os.ReadFile(filepath.Join(dir, "cache.db"))
	require.NoError(t, err)
	page := os.Getpagesize()
	for at := 0; at < len(good); at += page {
		bad := append([]byte(nil), good...)
		copy(bad[at:at+page], scramble(good[at:at+page], 0))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "cache.db"), bad, 0o600))
		c, _ := open(t, dir)
		_, _, err := c.Session()
		require.NoError(t, err, "page %d", at/page)
		receipts, err := c.Receipts()
		require.NoError(t, err)
		require.Len(t, receipts, 1)
		require.NoError(t, c.Close())
	}
}

func scramble(b []byte, from int) []byte {
	out := append([]byte(nil), b...)
	for i := from; i < len(out); i++ {
		out[i] ^= byte(i*31 + 17)
	}
	return out
}

func TestOneProcessHasTheDirectory(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	first, err := cache.Acquire(path)
	require.NoError(t, err)
	_, err = cache.Acquire(path)
	require.ErrorIs(t, err, cache.ErrInUse)
	require.NotZero(t, first.ID().Inode)
	require.NoError(t, first.Close())
	second, err := cache.Acquire(path)
	require.NoError(t, err)
	require.Equal(t, first.ID(), second.ID())
	require.NoError(t, second.Close())
}
