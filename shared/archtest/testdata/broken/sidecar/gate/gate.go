package gate

import (
	"errors"
	"testing"
	"time"

	_ "example.test/broken/authority/store"
	_ "example.test/broken/proto/v1"
	_ "example.test/broken/shared/clock/clocktest"
	_ "github.com/hashicorp/yamux"
	_ "go.etcd.io/bbolt"
	_ "modernc.org/sqlite"
)

var counter int

var Table = map[string]int{"a": 1}

var (
	touched = []int{1}
	taken   = [1]int{1}
	t       = time.NewTimer(1)
	errFine = errors.New("fine")
	table   = map[string]int{"a": 1}
	now     = time.Now
	_       = testing.Short
)

func init() {
	touched[0]++
	use(&taken)
}

func use(*[1]int) {}

// FC08 is no test.
func FC08() {}
