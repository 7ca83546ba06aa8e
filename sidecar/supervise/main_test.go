package supervise_test

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/forgeyard/concurrency/sidecar/supervise"
)

// A supervisor reaps every child of its process, so each test runs one in a
// process of its own: this binary again, told by the environment.
const (
	asSupervisor = "FORGEYARD_TEST_SUPERVISOR"
	asStubborn   = "FORGEYARD_TEST_STUBBORN" // its value is the name to say
)

func TestMain(m *testing.M) {
	if name := os.Getenv(asStubborn); name != "" {
		stubborn(name)
	}
	if os.Getenv(asSupervisor) != "" {
		os.Exit(supervisor(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// supervisor runs its arguments and does what it is told on standard input,
// one word a line. It says what happened on standard output. It ends with the
// command's code.
func supervisor(args []string) int {
	g, err := supervise.Start(supervise.Spec{Args: args, Env: os.Environ(), Files: []*os.File{null(), os.Stdout, os.Stderr}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 127
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		switch in.Text() {
		case "forward-term":
			g.Forward(syscall.SIGTERM)
		case "term":
			g.Signal(syscall.SIGTERM)
		case "stop":
			g.Signal(syscall.SIGSTOP)
		case "kill":
			g.Kill()
			fmt.Println("killed")
		case "await-exit":
			<-g.Exited()
			fmt.Println("exited", g.Code())
		case "await-done":
			<-g.Done()
			fmt.Println("done")
		}
	}
	return 0
}

// stubborn says its name and pid, hears TERM and goes on.
func stubborn(name string) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGTERM)
	fmt.Println(name, os.Getpid())
	for range heard {
		fmt.Println(name, "heard TERM")
	}
}

func null() *os.File {
	f, err := os.Open(os.DevNull)
	if err != nil {
		panic(err)
	}
	return f
}
