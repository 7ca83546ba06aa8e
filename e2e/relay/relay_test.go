package relay_test

import (
	"bufio"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/forgeyard/concurrency/e2e/relay"
)

// echo answers every line with its name and the line.
func echo(t *testing.T, name string) (addr string, heard chan string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	heard = make(chan string, 16)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				lines := bufio.NewScanner(c)
				for lines.Scan() {
					heard <- lines.Text()
					fmt.Fprintf(c, "%s %s\n", name, lines.Text())
				}
			}()
		}
	}()
	return ln.Addr().String(), heard
}

func TestRelayMisbehavesOnlyAsTold(t *testing.T) {
	t.Parallel()
	one, heard := echo(t, "one")
	two, _ := echo(t, "two")
	r, err := relay.New(one)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	dial := func() (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", r.Addr)
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c, bufio.NewReader(c)
	}
	ask := func(c net.Conn, in *bufio.Reader, text string) string {
		fmt.Fprintln(c, text)
		line, err := in.ReadString('\n')
		if err != nil {
			return err.Error()
		}
		return line
	}
	c, in := dial()
	require.Equal(t, "one a\n", ask(c, in, "a"))
	require.Equal(t, "a", <-heard)

	r.Silence(relay.ToClient, true)
	fmt.Fprintln(c, "b")
	require.Equal(t, "b", <-heard, "one way only")
	require.NoError(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = in.Peek(1)
	require.Error(t, err)
	require.NoError(t, c.SetReadDeadline(time.Time{}))
	r.Heal()
	line, err := in.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "one b\n", line)

	r.LoseAnswer()
	require.Equal(t, "EOF", ask(c, in, "c"))
	require.Equal(t, "c", <-heard, "it was done, and nobody learned it")
	require.Equal(t, 1, r.Lost())

	r.Target(two)
	c, in = dial()
	require.Equal(t, "two d\n", ask(c, in, "d"))
	r.Cut()
	_, err = in.ReadByte()
	require.Error(t, err)
}
