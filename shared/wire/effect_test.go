package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/wire"
)

// A caller's key may be any bytes of a header; one such effect must not keep a
// node's heartbeats from leaving.
func TestAnEffectWithAnyBytesCanBeSent(t *testing.T) {
	t.Parallel()
	e := effect.Effect{ID: "e", Key: "k\xff\x00", Operation: "PUT /" + strings.Repeat("ä", 4000), Reason: "no answer"}
	m := wire.ToEffect(e, "node-a")
	_, err := proto.Marshal(m)
	require.NoError(t, err)
	require.Equal(t, "k\uFFFD\uFFFD", m.GetIdempotencyKey())
	require.LessOrEqual(t, len(m.GetOperation()), 500, "what the authority takes")
	require.True(t, strings.HasSuffix(m.GetOperation(), "ä..."))
	require.Equal(t, "no answer", m.GetReason())
}
