package gate

import "testing"
import "time"

// TestFC02_Named names a case.
func TestFC02_Named(t *testing.T) {
	time.Sleep(1)
}
