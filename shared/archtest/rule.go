package archtest

// Rule is one property of the tree.
type Rule struct {
	Name  string
	Why   string
	Check func(*Tree) []string // one text for each place that breaks it
}

// Rules lists all of them.
func Rules() []Rule {
	return []Rule{
		{"layers", "shared is what both sides agree on; authority and sidecar meet on the wire only", layers},
		{"drivers", "one package knows each driver, so that it can be replaced there", drivers},
		{"generated", "wire types stay in the doors; what is inside speaks the domain", generated},
		{"doors", "a door translates; what it reads and writes it asks the use cases for", doors},
		{"harnesses", "what exists for tests must not reach a binary", harnesses},
		{"pure-imports", "pure rules can be tested, searched and read without a system around them", pureImports},
		{"pure-calls", "a rule that reads a clock or starts a goroutine has more inputs than its arguments", pureCalls},
		{"clock", "a clock that is injected half is not injected", clockCalls},
		{"sleep", "a test that sleeps is slow when it passes and wrong when the machine is", sleeps},
		{"init", "what runs before main cannot be passed its dependencies", inits},
		{"state", "package variables that change are shared by everybody who did not ask", mutableState},
		{"names", "a package is named for what it holds", names},
		{"docs", "each package says what it guarantees", docs},
		{"size", "the tail of long files and functions is where nobody reads", sizes},
	}
}
