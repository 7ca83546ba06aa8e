package tunnel_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/shared/tunnel"
	"github.com/forgeyard/concurrency/shared/tunnel/tunneltest"
)

// An authority holds thousands of tunnels. What one end of an idle tunnel
// keeps, with a gRPC client and a server in use on it, is measured on pairs:
// half each. About half of it is stacks of the dozen goroutines it takes.
func TestMemoryOfAnIdleTunnelIsBounded(t *testing.T) { // not parallel: it measures the heap
	const pairs, bound = 40, 160 << 10
	pki := tunneltest.NewPKI(t)
	before := inUse()
	for range pairs {
		pair := tunneltest.Connect(t, pki, node, tunnel.Options{}, nil)
		serveHealth(t, pair.Dialled)
		serveHealth(t, pair.Accepted)
		require.NoError(t, check(t, pair.Dialled))
		require.NoError(t, check(t, pair.Accepted))
	}
	each := (inUse() - before) / (2 * pairs)
	t.Logf("one end of an idle tunnel keeps %d KiB (heap and stacks)", each>>10)
	require.Less(t, each, bound)
}

func inUse() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}
