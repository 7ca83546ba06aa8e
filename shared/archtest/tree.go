package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
)

// Tree is every package of one module.
type Tree struct {
	Packages []*Package
	root     string
	module   string
	fset     *token.FileSet
}

// Package is one directory of Go files.
type Package struct {
	Path        string // inside the module: "shared/scope"
	Name        string
	Imports     []string // of code; the module's own without the module's path
	TestImports []string // of both kinds of test files
	Files       []*File
}

// File is one source file.
type File struct {
	Path      string // inside the module
	Test      bool
	Generated bool
	Lines     int
	Syntax    *ast.File
}

// listed is the part of the output of `go list -json` that is used.
type listed struct {
	Dir, ImportPath, Name              string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
	Module                             struct{ Path, Dir string }
}

// Load reads the module that dir is in. Packages that do not compile are read
// as far as they go.
func Load(dir string) (*Tree, error) {
	cmd := exec.Command("go", "list", "-e", "-json=Dir,ImportPath,Name,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports,Module", "./...")
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w: %s", err, stderr.String())
	}
	t := &Tree{fset: token.NewFileSet()}
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var l listed
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return t, nil
		} else if err != nil {
			return nil, fmt.Errorf("list packages: %w", err)
		}
		t.root, t.module = l.Module.Dir, l.Module.Path
		p, err := t.read(l)
		if err != nil {
			return nil, err
		}
		t.Packages = append(t.Packages, p)
	}
}

func (t *Tree) read(l listed) (*Package, error) {
	p := &Package{
		Path: t.inside(l.ImportPath), Name: l.Name, Imports: t.insides(l.Imports),
		TestImports: append(t.insides(l.TestImports), t.insides(l.XTestImports)...),
	}
	names := append(append(l.GoFiles, l.TestGoFiles...), l.XTestGoFiles...)
	for _, name := range names {
		full := filepath.Join(l.Dir, name)
		syntax, err := parser.ParseFile(t.fset, full, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse: %w", err)
		}
		rel, err := filepath.Rel(t.root, full)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", full, err)
		}
		p.Files = append(p.Files, &File{
			Path: rel, Test: strings.HasSuffix(name, "_test.go"), Generated: ast.IsGenerated(syntax),
			Lines: t.fset.File(syntax.Pos()).LineCount(), Syntax: syntax,
		})
	}
	return p, nil
}

// inside shortens an import path of the module; others stay as they are.
func (t *Tree) inside(path string) string { return strings.TrimPrefix(path, t.module+"/") }

func (t *Tree) insides(paths []string) []string {
	out := make([]string, 0, len(paths))
	for _, p := range paths {
		out = append(out, t.inside(p))
	}
	return out
}

// under reports whether path is dir or inside it.
func under(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

func underAny(path string, dirs []string) bool {
	for _, d := range dirs {
		if under(path, d) {
			return true
		}
	}
	return false
}

// at names a place as file:line.
func (t *Tree) at(f *File, n ast.Node) string {
	return fmt.Sprintf("%s:%d", f.Path, t.fset.Position(n.Pos()).Line)
}

// code yields the files that people wrote and that are no tests.
func (p *Package) code(yield func(*File) bool) {
	for _, f := range p.Files {
		if !f.Test && !f.Generated && !yield(f) {
			return
		}
	}
}

// harness reports whether a package exists for tests only.
func (p *Package) harness() bool {
	last := p.Path[strings.LastIndex(p.Path, "/")+1:]
	return strings.HasSuffix(last, "test") || under(p.Path, "e2e")
}
