package ownership_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/sidecar/ownership"
)

func TestKeyIsNeverPrinted(t *testing.T) {
	t.Parallel()
	k := ownership.NewKey()
	require.NotEqual(t, k, ownership.NewKey())
	for _, format := range []string{"%v", "%s", "%+v"} {
		require.Equal(t, "hold-key:redacted", fmt.Sprintf(format, k))
	}
	_, err := ownership.ParseKey(k.Secret()[1:])
	require.ErrorIs(t, err, ownership.ErrKey)
	require.NotContains(t, err.Error(), k.Secret()[1:])
}

func FuzzParseKey(f *testing.F) {
	f.Add(strings.Repeat("a", 32))
	f.Add(strings.Repeat("F", 32))
	f.Add("")
	f.Add(strings.Repeat("g", 32))
	f.Add(strings.Repeat("0", 33))
	f.Fuzz(func(t *testing.T, text string) {
		k, err := ownership.ParseKey(text)
		if err != nil {
			if !errors.Is(err, ownership.ErrKey) || k != (ownership.Key{}) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if !strings.EqualFold(k.Secret(), text) {
			t.Fatalf("%q became another key", text)
		}
	})
}
