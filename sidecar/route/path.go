package route

import (
	"fmt"
	"net/url"
	"strings"
)

// PathError says that a path can be read in two ways.
type PathError struct {
	Path    string
	Problem string
}

// Error implements error.
func (e *PathError) Error() string { return fmt.Sprintf("path %q: %s", e.Path, e.Problem) }

// Canonical decodes a path that every server reads alike, and refuses all
// others: encoded slashes, dots and backslashes, dot segments, empty segments,
// parameters, control characters. It fails with *PathError.
func Canonical(escaped string) (string, error) {
	bad := func(why string) (string, error) { return "", &PathError{Path: escaped, Problem: why} }
	if !strings.HasPrefix(escaped, "/") {
		return bad("must start with /")
	}
	lower := strings.ToLower(escaped)
	for _, enc := range []string{"%2f", "%2e", "%5c", "%00", "%25"} {
		if strings.Contains(lower, enc) {
			return bad("has " + enc + ": encoded slashes, dots, backslashes, percent signs and zeros are refused, since servers read them differently")
		}
	}
	path, err := url.PathUnescape(escaped)
	if err != nil {
		return bad("has a broken escape")
	}
	if strings.ContainsAny(path, "\\;") {
		return bad("has a backslash or semicolon: servers read them differently")
	}
	for i := range len(path) {
		if path[i] < 0x20 || path[i] == 0x7f {
			return bad("has a control character")
		}
	}
	segments := strings.Split(path[1:], "/")
	for i, s := range segments {
		if s == "." || s == ".." || (s == "" && i < len(segments)-1) {
			return bad("has an empty or dot segment")
		}
	}
	return path, nil
}
