package main

import (
	"context"
	"errors"
	"fmt"
	"os"
)

func main() {
	err := run(context.Background(), os.Args[1:], process{Environ: os.Environ(), In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	if err == nil {
		return
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(os.Stderr, "forgeyard:", text)
	}
	os.Exit(codeOf(err))
}

// codeOf is the exit code of an error.
func codeOf(err error) int {
	var exit *exitError
	if errors.As(err, &exit) {
		return exit.code
	}
	return 1
}
