package epoch_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/forgeyard/concurrency/shared/epoch"
)

func TestI2_NextIsAboveTheScopeAndEveryLowerGeneration(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := epoch.Epoch(rapid.Uint64Range(0, 1<<63-1).Draw(t, "epoch"))
		g := epoch.Generation(rapid.Uint32Range(0, uint32(epoch.MaxGeneration)).Draw(t, "generation"))
		next, err := epoch.Next(e, g)
		if err != nil {
			require.ErrorIs(t, err, epoch.ErrExhausted)
			require.Equal(t, uint64(1<<epoch.CounterBits-1), e.Counter())
			return
		}
		require.Greater(t, next, e)
		require.GreaterOrEqual(t, next.Generation(), g)
		require.NotZero(t, next.Counter())
		require.Less(t, uint64(next), uint64(1)<<63, "fits a signed column")
	})
}

func TestNextNeverCarriesIntoTheGeneration(t *testing.T) {
	t.Parallel()
	last := epoch.Epoch(5)<<epoch.CounterBits | (1<<epoch.CounterBits - 1)
	_, err := epoch.Next(last, 5)
	require.ErrorIs(t, err, epoch.ErrExhausted)
	require.ErrorContains(t, err, "counter of generation 5")
	next, err := epoch.Next(last, 6)
	require.NoError(t, err)
	require.Equal(t, epoch.Generation(6), next.Generation())
	require.Equal(t, uint64(1), next.Counter())
	_, err = epoch.Next(0, epoch.MaxGeneration+1)
	require.ErrorIs(t, err, epoch.ErrExhausted)
}

func TestRaiseIsAboveStoreWitnessAndClock(t *testing.T) {
	t.Parallel()
	day := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC) // 288 units of five minutes
	for _, tc := range []struct {
		stored, witness epoch.Generation
		now             time.Time
		want            epoch.Generation
	}{
		{1, 0, day, 288},
		{400, 0, day, 401},
		{400, 900, day, 901},
		{7, 3, time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), 8},
	} {
		got, err := epoch.Raise(tc.stored, tc.witness, tc.now)
		require.NoError(t, err)
		require.Equal(t, tc.want, got)
	}
	_, err := epoch.Raise(epoch.MaxGeneration, 0, day)
	require.ErrorIs(t, err, epoch.ErrExhausted)
	_, err = epoch.Raise(1, 0, day.AddDate(90, 0, 0))
	require.ErrorIs(t, err, epoch.ErrExhausted)
}

func TestParseRefusesWhatNoEpochCanBe(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "-1", "1.0", "0x10", " 1", "9223372036854775808", "99999999999999999999", "one"} {
		_, err := epoch.Parse(text)
		require.ErrorContains(t, err, strconv.Quote(text))
		require.ErrorContains(t, err, "decimal number below 2^63")
	}
	e, err := epoch.Parse("9223372036854775807")
	require.NoError(t, err)
	require.Equal(t, epoch.MaxGeneration, e.Generation())
}

func TestFC108_OnlyTheReceiptOfExactlyThisGrantVerifies(t *testing.T) {
	t.Parallel()
	key, other := epoch.ReceiptKey{1}, epoch.ReceiptKey{2}
	scopeID := [32]byte{9}
	r := key.Seal("authority", scopeID, 77, "node")
	require.True(t, key.Verify(r, "authority", scopeID, 77, "node"))
	require.False(t, other.Verify(r, "authority", scopeID, 77, "node"))
	require.False(t, key.Verify(r, "authorit", scopeID, 77, "ynode"))
	require.False(t, key.Verify(r, "authority", [32]byte{8}, 77, "node"))
	require.False(t, key.Verify(r, "authority", scopeID, 78, "node"))
	require.False(t, key.Verify(r, "authority", scopeID, 77, "node2"))
	require.False(t, key.Verify(nil, "authority", scopeID, 77, "node"))
	require.False(t, key.Verify(r[:31], "authority", scopeID, 77, "node"))
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"0", "1", "9223372036854775807", "9223372036854775808", "-1", "007", "+5", "1_000"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := epoch.Parse(text)
		if err != nil {
			return
		}
		again, err := epoch.Parse(e.String())
		if err != nil || again != e || uint64(e) >= 1<<63 {
			t.Fatalf("%q: %d, %d, %v", text, e, again, err)
		}
	})
}
