package lease

import (
	"os"
	clock "time"

	"example.test/broken/shared/common"
	"example.test/broken/shared/scope"
)

// Decide reads a clock.
func Decide() any {
	now := clock.Now()
	go common.Do()
	_ = os.Getpid()
	_ = scope.Scope{}
	f := clock.Since
	return f(now)
}
