package clocktest

import "time"

func Wait() {
	time.Sleep(1)
}
