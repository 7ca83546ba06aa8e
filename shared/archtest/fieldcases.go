package archtest

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
)

// requiredCases are the field cases that must have a test which names them.
func requiredCases() []string {
	return strings.Fields(`02 03 04 05 06 07 08 09 10 11 12 13 20 21 22 23 24 25 26 27 41 50 51 52 53 54 55 56 57 60 61 63 64 65
		90 91 92 93 94 95 96 97 98 99 100 101 102 103 104 106 108`)
}

// caseInName matches the numbers in TestFC02_Late... and TestFC50_FC97_...
var caseInName = regexp.MustCompile(`FC(\d+)`)

// FieldCases maps each field case to the tests that name it, as file:line name.
func FieldCases(t *Tree) map[string][]string {
	out := map[string][]string{}
	for _, p := range t.Packages {
		for _, f := range p.Files {
			for _, d := range f.Syntax.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || !f.Test && !p.harness() {
					continue
				}
				for _, m := range caseInName.FindAllStringSubmatch(fn.Name.Name, -1) {
					out[m[1]] = append(out[m[1]], t.at(f, fn)+" "+fn.Name.Name)
				}
			}
		}
	}
	return out
}

// MissingCases lists required field cases that no test names.
func MissingCases(t *Tree) []string {
	found := FieldCases(t)
	var out []string
	for _, id := range requiredCases() {
		if len(found[id]) == 0 {
			out = append(out, fmt.Sprintf("FC-%s: no test names it", id))
		}
	}
	return out
}
