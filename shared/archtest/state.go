package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

func inits(t *Tree) []string {
	var out []string
	for _, p := range t.Packages {
		for f := range p.code {
			for _, d := range f.Syntax.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
					out = append(out, t.at(f, fn)+": init()")
				}
			}
		}
	}
	return out
}

// mutableState: a package variable is an interface guard, a sentinel error, an
// embedded file, the result of a call that makes a constant thing, or an
// unexported table that nothing in its package writes to.
func mutableState(t *Tree) []string {
	var out []string
	for _, p := range t.Packages {
		written := p.writtenNames()
		for f := range p.code {
			for _, d := range f.Syntax.Decls {
				gen, ok := d.(*ast.GenDecl)
				if !ok || gen.Tok != token.VAR {
					continue
				}
				for _, s := range gen.Specs {
					spec := s.(*ast.ValueSpec)
					if !embeds(gen, spec) {
						out = append(out, t.mutableNames(f, spec, written)...)
					}
				}
			}
		}
	}
	return out
}

func (t *Tree) mutableNames(f *File, spec *ast.ValueSpec, written map[string]bool) []string {
	var out []string
	for i, name := range spec.Names {
		var value ast.Expr
		if i < len(spec.Values) {
			value = spec.Values[i]
		}
		if name.Name != "_" && (written[name.Name] || !constant(name, value)) {
			out = append(out, fmt.Sprintf("%s: package variable %s can change", t.at(f, name), name.Name))
		}
	}
	return out
}

func constant(name *ast.Ident, value ast.Expr) bool {
	switch v := value.(type) {
	case *ast.CompositeLit:
		return !name.IsExported()
	case *ast.CallExpr:
		made := []string{"errors.New", "fmt.Errorf", "regexp.MustCompile", "time.Date", "reflect.TypeFor", "sync.OnceValue", "sync.OnceValues", "strings.NewReplacer"}
		return slices.Contains(made, callee(v.Fun))
	default:
		return false
	}
}

// callee names pkg.Function, without type arguments.
func callee(e ast.Expr) string {
	if ix, ok := e.(*ast.IndexExpr); ok {
		e = ix.X
	}
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	pkg, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return pkg.Name + "." + sel.Sel.Name
}

func embeds(gen *ast.GenDecl, spec *ast.ValueSpec) bool {
	for _, doc := range []*ast.CommentGroup{gen.Doc, spec.Doc} {
		if doc == nil {
			continue
		}
		for _, c := range doc.List {
			if strings.HasPrefix(c.Text, "//go:embed ") {
				return true
			}
		}
	}
	return false
}

// writtenNames are the identifiers that some code of the package assigns to,
// takes the address of, or deletes from. Locals that shadow count too: a name
// for both is worth changing anyway.
func (p *Package) writtenNames() map[string]bool {
	out := map[string]bool{}
	for f := range p.code {
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			for _, e := range writes(n) {
				if id := root(e); id != nil {
					out[id.Name] = true
				}
			}
			return true
		})
	}
	return out
}

func writes(n ast.Node) []ast.Expr {
	switch s := n.(type) {
	case *ast.AssignStmt:
		if s.Tok != token.DEFINE {
			return s.Lhs
		}
	case *ast.IncDecStmt:
		return []ast.Expr{s.X}
	case *ast.UnaryExpr:
		if s.Op == token.AND {
			return []ast.Expr{s.X}
		}
	case *ast.CallExpr:
		if id, ok := s.Fun.(*ast.Ident); ok && slices.Contains([]string{"delete", "clear", "copy"}, id.Name) {
			return s.Args[:1]
		}
	}
	return nil
}

// root is the variable that an expression such as a.b[i].c is part of.
func root(e ast.Expr) *ast.Ident {
	for {
		switch v := e.(type) {
		case *ast.Ident:
			return v
		case *ast.SelectorExpr:
			e = v.X
		case *ast.IndexExpr:
			e = v.X
		case *ast.StarExpr:
			e = v.X
		case *ast.ParenExpr:
			e = v.X
		default:
			return nil
		}
	}
}
