// Package pgtest runs a real Postgres server for tests: one server for each
// test process, a database of its own for each test.
//
// The server keeps its files in a temporary directory, listens on a unix
// socket and a loopback port only, and dies with the test process. As root it
// runs as the user postgres, since Postgres refuses root. Where the binaries
// are missing a test fails with the command that installs them; it is never
// skipped.
package pgtest
