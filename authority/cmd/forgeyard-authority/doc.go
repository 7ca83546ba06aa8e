// Command forgeyard-authority is the central service: serve, migrate,
// check-config, and dev for one machine.
//
// Guarantees: every subcommand exits 0 only when it did what it says; SIGTERM
// and SIGINT stop it gracefully with exit 0; errors name field and value.
package main
