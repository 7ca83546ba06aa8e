package main

import (
	"os"
	"testing"
)

// asProgram makes this binary the program itself, so that signals, exit codes
// and process groups are those of real processes.
const asProgram = "FORGEYARD_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}
