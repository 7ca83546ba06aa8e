package archtest

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// clockFunctions of package time read a clock or start a timer.
func clockFunctions() []string {
	return []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"}
}

// timeUses finds uses of the given functions of package time, called or passed
// on as values.
func (t *Tree) timeUses(f *File, functions []string) []string {
	name := importName(f.Syntax, "time")
	if name == "" {
		return nil
	}
	var out []string
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if id, ok := sel.X.(*ast.Ident); ok && id.Name == name && slices.Contains(functions, sel.Sel.Name) {
			out = append(out, fmt.Sprintf("%s: time.%s", t.at(f, n), sel.Sel.Name))
		}
		return true
	})
	return out
}

// importName is the name under which a file imports path, or "".
func importName(f *ast.File, path string) string {
	for _, spec := range f.Imports {
		if strings.Trim(spec.Path.Value, `"`) != path {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path[strings.LastIndex(path, "/")+1:]
	}
	return ""
}

func pureCalls(t *Tree) []string {
	var out []string
	for _, p := range t.Packages {
		if !slices.Contains(purePackages(), p.Path) {
			continue
		}
		for f := range p.code {
			out = append(out, t.timeUses(f, clockFunctions())...)
			ast.Inspect(f.Syntax, func(n ast.Node) bool {
				if g, ok := n.(*ast.GoStmt); ok {
					out = append(out, t.at(f, g)+": starts a goroutine")
				}
				return true
			})
		}
	}
	return out
}

// clockReaders may read the machine's clock themselves, each for a reason.
func clockReaders() map[string]string {
	return map[string]string{
		"shared/clock":               "it is the clock",
		"sidecar/supervise/group.go": "polls whether a process group is empty, for which the kernel has no event; it decides nothing by time",
		"authority/dev.go":           "assembly: the first certificates of a development authority are made before it has a clock to inject",
	}
}

func clockCalls(t *Tree) []string {
	var out []string
	for _, p := range t.Packages {
		if p.harness() || strings.Contains(p.Path, "/cmd/") || clockReaders()[p.Path] != "" {
			continue
		}
		for f := range p.code {
			if clockReaders()[f.Path] == "" {
				out = append(out, t.timeUses(f, clockFunctions())...)
			}
		}
	}
	return out
}

func sleeps(t *Tree) []string {
	var out []string
	for _, p := range t.Packages {
		for _, f := range p.Files {
			if f.Test || p.harness() {
				out = append(out, t.timeUses(f, []string{"Sleep"})...)
			}
		}
	}
	return out
}
