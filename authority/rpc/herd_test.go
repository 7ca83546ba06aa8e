package rpc_test

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FC-41: connections that do not get on with their handshake take a bounded
// number of places; whoever comes then is sent away at once instead of being
// kept until it gives up, and is served when a place is free again.
func TestFC41_ConnectionsBeyondTheHandshakesUnderWayAreSentAwayAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	dial := func() net.Conn {
		c, err := net.Dial("tcp", b.nodes)
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	var stuck []net.Conn
	for range 256 {
		stuck = append(stuck, dial())
	}
	// A place is free when the server waits for the handshake instead of closing.
	sentAway := func() bool {
		c := dial()
		defer c.Close()
		require.NoError(t, c.SetReadDeadline(time.Now().Add(500*time.Millisecond)))
		_, err := c.Read(make([]byte, 1))
		require.Error(t, err)
		return !errors.Is(err, os.ErrDeadlineExceeded)
	}
	require.True(t, sentAway())
	for _, c := range stuck {
		c.Close()
	}
	require.Eventually(t, func() bool { return !sentAway() }, 20*time.Second, 10*time.Millisecond)
	b.join("node-a", "acme")
}
