package supervise

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// descendants lists the children of a process, theirs, and so on, as /proc
// shows them at this moment.
func descendants(pid int) []int {
	var out []int
	lists, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children") // the pattern is well formed
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread ended
		}
		for _, field := range strings.Fields(string(text)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				continue
			}
			out = append(out, child)
			out = append(out, descendants(child)...)
		}
	}
	return out
}
