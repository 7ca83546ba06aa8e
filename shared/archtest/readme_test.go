package archtest_test

import (
	"go/ast"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// A promise whose test was renamed or dropped is no promise.
func TestTheReadmeNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	named := regexp.MustCompile("`(Test[A-Za-z0-9_]+)`").FindAllSubmatch(readme, -1)
	require.NotEmpty(t, named)
	exists := map[string]bool{}
	for _, p := range load(t, "../..").Packages {
		for _, f := range p.Files {
			for _, d := range f.Syntax.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && f.Test {
					exists[fn.Name.Name] = true
				}
			}
		}
	}
	for _, m := range named {
		if !exists[string(m[1])] {
			t.Errorf("README.md names %s, which does not exist", m[1])
		}
	}
}
