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
	code := 1
	var exit *exitError
	if errors.As(err, &exit) {
		code = exit.code
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(os.Stderr, "forgeyard:", text)
	}
	os.Exit(code)
}
