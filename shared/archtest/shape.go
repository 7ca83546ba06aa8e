package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// Limits of STYLE: hard stops, not aims.
const (
	maxFileLines     = 600
	maxFunctionLines = 80
)

func names(t *Tree) []string {
	empty := []string{"util", "utils", "common", "helper", "helpers", "misc", "types", "models", "lib", "base"}
	var out []string
	for _, p := range t.Packages {
		if slices.Contains(empty, p.Name) || slices.Contains(empty, path.Base(p.Path)) {
			out = append(out, fmt.Sprintf("%s: package %s says nothing", p.Path, p.Name))
		}
	}
	return out
}

// docs: a doc.go with the package comment, in every package that has code.
func docs(t *Tree) []string {
	var out []string
	for _, p := range t.Packages {
		written, documented := false, false
		for f := range p.code {
			written = true
			if path.Base(f.Path) != "doc.go" || f.Syntax.Doc == nil {
				continue
			}
			text := f.Syntax.Doc.Text()
			documented = strings.HasPrefix(text, "Package "+p.Name+" ") || p.Name == "main" && text != ""
		}
		if written && !documented {
			out = append(out, fmt.Sprintf("%s: has no doc.go with a comment that starts %q", p.Path, "Package "+p.Name))
		}
	}
	return out
}

// sizes counts lines of files and of function bodies; a test function whose
// length is its table is excepted.
func sizes(t *Tree) []string {
	var out []string
	for _, p := range t.Packages {
		for _, f := range p.Files {
			if f.Generated {
				continue
			}
			if f.Lines > maxFileLines {
				out = append(out, fmt.Sprintf("%s: %d lines, at most %d", f.Path, f.Lines, maxFileLines))
			}
			for _, d := range f.Syntax.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
					out = append(out, t.tooLong(f, fn)...)
				}
			}
		}
	}
	return out
}

func (t *Tree) tooLong(f *File, fn *ast.FuncDecl) []string {
	lines := t.lines(fn.Body)
	if f.Test {
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			if lit, ok := n.(*ast.CompositeLit); ok {
				lines -= t.lines(lit) - 1
				return false
			}
			return true
		})
	}
	if lines <= maxFunctionLines {
		return nil
	}
	return []string{fmt.Sprintf("%s: %s has %d lines, at most %d", t.at(f, fn), fn.Name.Name, lines, maxFunctionLines)}
}

func (t *Tree) lines(n ast.Node) int {
	return t.fset.Position(n.End()).Line - t.fset.Position(n.Pos()).Line + 1
}
