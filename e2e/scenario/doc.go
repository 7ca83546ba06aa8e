// Package scenario has tests on real processes with real input: git push
// through the proxy, processes that are killed or paused, packets that vanish.
//
// Each test takes its own cluster; both stores are used. The package has no
// code outside tests.
package scenario
