package supervise

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// descendants lists the children of a process, theirs, and so on, as /proc
// shows them at this moment. What forks while it looks is found by the next
// look.
func descendants(pid int) []int {
	parents := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it ended
		}
		if parent, err := parentOf(string(text)); err == nil {
			child, _ := strconv.Atoi(strings.Split(path, "/")[2]) // digits, by the pattern
			parents[parent] = append(parents[parent], child)
		}
	}
	return below(pid, parents)
}

// parentOf reads the parent from a process' stat. The name in parentheses may
// hold anything, parentheses too.
func parentOf(stat string) (int, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0, strconv.ErrSyntax
	}
	return strconv.Atoi(fields[1])
}

// below collects everything under pid. A pid that was reused during the look
// can make a loop: each is taken once.
func below(pid int, parents map[int][]int) []int {
	var out []int
	seen := map[int]bool{pid: true}
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		for _, child := range parents[next[0]] {
			if !seen[child] {
				seen[child] = true
				out, next = append(out, child), append(next, child)
			}
		}
	}
	return out
}
